"""The layout of snapshot readers: the run that is shown with a bar a client and its charts, those that were, a form."""

from collections.abc import Mapping
from typing import Any

from dash import dcc, html

from dashboard.tabs.figures import empty
from dashboard.tabs.forms import Field, fields, inputs, outcome
from dashboard.tabs.parts import ASKING, aria, data, drawn_panel, panel_head, tick, widths
from dashboard.tabs.reads.snapshots.charts import LOW, TALL
from dashboard.tabs.reads.snapshots.words import EMPTY
from dashboard.tabs.runs import tiles_section
from dashboard.tabs.tables import Column, table
from schemas.api.snapshots import SnapshotSettings

NAME = "snapshots"
SUGGESTED: Mapping[str, Any] = {"folders": 10, "intervals": 20, "clients": 20, "cycles": 10, "scale": 0.1}
"""In place of the model's defaults, which are the paper's: 6 GB, and most of a day."""

FIRST = [
    Field(name=name, label=label, value=SUGGESTED.get(name), hint=hint)
    for name, label, hint in (
        ("layout", "Layout", None),
        ("ask", "Asks for", None),
        ("folders", "Folders", None),
        ("channels", "Channels per folder", None),
        ("intervals", "Intervals per channel", None),
        ("clients", "Clients", None),
        ("cycles", "Cycles per client", None),
        ("scale", "Scale of the time", "1 is the paper’s pace"),
    )
]
MORE = fields(
    ("payload", "Values"),
    ("payload_bytes", "Characters per value"),
    ("order", "Order of insertion"),
    ("sample", "Sample"),
    ("interval_s", "Interval, s of data"),
    ("chunk_s", "Chunk, s of data"),
    ("cycle_s", "Cycle, s of data"),
    ("processing_s", "Processing, s of data"),
    ("processes", "Processes"),
    ("schema", "Schema"),
)


def snapshots_form() -> Any:
    """The form; its button is `snapshots-send`, `snapshots-more` has the fields that seldom matter."""
    more = [html.Summary("More settings"), html.Div(inputs(NAME, SnapshotSettings, MORE), className="fields")]
    send = html.Button("Start the run", id="snapshots-send", className="primary", type="button")
    return html.Div(
        [
            html.Div(inputs(NAME, SnapshotSettings, FIRST), className="fields"),
            html.Details(more, id="snapshots-more", className="more"),
            html.P("", id="snapshots-plan", className="hint"),
            html.Div([send, outcome("snapshots-outcome")], className="order-row"),
        ],
        id="snapshots-form",
        className="order",
        role="form",
    )


LOOK_MS = 2000
AGAIN_MS = 8000
"""After which past runs are looked for while nothing changes."""

TILES: tuple[tuple[str, str], ...] = (
    ("state", "State"),
    ("clients", "Clients that read"),
    ("efficiency", "Cycles in time"),
    ("query", "Snapshot p50"),
    ("rows", "Rows/s"),
    ("bytes", "Values read"),
    ("blocks", "Blocks read"),
    ("cpu", "Server CPU"),
    ("left", "Time left"),
)
"""Name, label."""

PAST = [
    Column(name="id", label="Run", press=True, width=190, wide=True),
    Column(name="layout", label="Layout", words=True, width=112, wide=True),
    Column(name="data", label="Snapshot", title="folders × channels", width=96, wide=True),
    Column(name="clients", label="Clients", width=70, wide=True),
    Column(name="asked", label="Rows/s asked", width=92, wide=True),
    Column(name="efficiency", label="In time", width=74, wide=True),
    Column(name="state", label="State", words=True, width=130, wide=True),
]


def snapshot_panels() -> list[Any]:
    """The run that is shown, those that were, and a form for the next."""
    return [
        tick("snapshots-tick", "snapshots", every_ms=1000),
        tick("snapshots-look", "snapshots", every_ms=LOOK_MS),
        tick("snapshots-again", every_ms=AGAIN_MS),
        *(dcc.Store(id=f"snapshots-{name}") for name in ("known", "listed", "told")),
        _run(),
        _shown(),
        _last(),
    ]


def _run() -> Any:
    stop = html.Button("Stop the run", id="snapshots-stop", className="plain", type="button")
    order = [html.Span("", id="snapshots-phase"), stop, outcome("snapshots-stopped")]
    problem = html.P("", id="snapshots-problem", className="outcome", role="status", hidden=True, **data(level="wrong"))
    return html.Section(
        [
            html.H2("Snapshot readers", id="snapshots-title"),
            problem,
            html.P(ASKING, id="snapshots-summary", className="hint"),
            html.P(EMPTY, id="snapshots-empty", className="hint", hidden=True),
            html.Progress(id="snapshots-progress", hidden=True, **aria("What is done of the run")),
            html.Div(order, id="snapshots-order", className="order-row", hidden=True),
        ],
        id="snapshots-run",
        className="panel stack",
        **aria("Run of snapshot readers"),
    )


def _shown() -> Any:
    clients = html.Div(
        _figure("Clients: how much of the cycle is over", "clients", LOW, note="keys"),
        id="snapshots-clients-panel",
        hidden=True,
    )
    low = [
        _figure("Rows/s", "rows", LOW),
        _figure("MB/s", "bytes", LOW),
        _figure("Blocks/s, read and in the cache", "blocks", LOW),
        _figure("The cliff: blocks read again", "cliff", LOW, note="keys"),
    ]
    return html.Div(
        [
            tiles_section("snapshots", TILES),
            clients,
            _figure("Seconds until the snapshot was there", "times", TALL),
            html.Div(low, className="charts"),
        ],
        id="snapshots-shown",
        className="stack",
        hidden=True,
    )


def _last() -> Any:
    start = [panel_head("Start snapshot readers", "snapshots-form-note"), snapshots_form()]
    past = [
        panel_head("Past runs of snapshot readers", "snapshots-past-note"),
        table("snapshots-past", PAST, "None yet."),
    ]
    panels = [
        html.Section(start, className="panel", **aria("Start snapshot readers")),
        html.Section(past, className="panel", **aria("Past runs of snapshot readers")),
    ]
    return html.Div(panels, className="columns", style=widths(1, 1.3))


def _figure(title: str, name: str, height: int, note: str = "aside") -> Any:
    return drawn_panel(f"snapshots-{name}", title, empty(height), height, note=note)

"""The layout of the tab Visits: mock exposures of a telescope, how long each takes, and how that grows with history."""

from collections.abc import Mapping, Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html, no_update

from dashboard.tabs.figures import INK, LIMIT, empty
from dashboard.tabs.forms import Field, fields, inputs, outcome
from dashboard.tabs.parts import ASKING, aria, data, drawn_panel, key, panel_head, tick, widths
from dashboard.tabs.runs import tiles_section
from dashboard.tabs.tables import Column, table
from dashboard.tabs.visits.charts import LOW, SERIES, TALL, used_steps
from dashboard.tabs.visits.sky import sky
from dashboard.tabs.visits.words import EMPTY
from schemas.api.visits import VisitsFigures
from schemas.config.visits import VisitsConfig

NAME = "visits"
FIRST = [
    *fields(
        ("index_mode", "Index mode"),
        ("last_columns", "Last table’s columns"),
    ),
    Field(
        name="last_update",
        label="Last table’s update",
        value="",
        offered=[
            ("", "best for the database"),
            ("delete_insert", "delete insert"),
            ("replace", "replace"),
            ("upsert", "upsert"),
        ],
    ),
    *fields(("visits", "Total visits")),
    Field(name="survey.scale", label="Scale of the sky", hint="1 is the paper’s sky"),
    Field(name="cadence", label="Cadence", hint="fast: as soon as possible"),
    *fields(("tiles", "Tiles per side")),
    Field(
        name="workers",
        label="Workers",
        offered=[("one", "one process"), ("fork", "one per tile"), ("persistent", "several that stay")],
    ),
    *fields(("processes", "Processes"), ("history_days", "History, days")),
]
MORE = fields(
    ("connections", "Connections"),
    ("transactions", "Transactions per tile"),
    ("durability", "Durability"),
    ("limit_s", "Time limit per visit, s"),
    ("pixel_level", "Pixel level"),
    ("period_days", "Period, days"),
    ("htm_ranges", "HTM ranges"),
    ("id_chunk", "Ids per chunk"),
    ("survey.seed", "Seed"),
    ("schema", "Schema"),
)
COUNTS_WITH = {
    "last_columns": ("index_mode", "last_object_table"),
    "last_update": ("index_mode", "last_object_table"),
    "processes": ("workers", "persistent"),
    "pixel_level": ("index_mode", "partitioned"),
    "period_days": ("index_mode", "partitioned"),
}
"""Fields that count only with one choice of another."""


def visits_form() -> Any:
    """The form; its button is `visits-send`, `visits-more` has the fields that seldom matter."""
    more = [html.Summary("More settings"), html.Div(inputs(NAME, VisitsConfig, MORE), className="fields")]
    send = html.Button("Start the run", id="visits-send", className="primary", type="button")
    return html.Div(
        [
            html.Div(inputs(NAME, VisitsConfig, FIRST), className="fields"),
            html.Details(more, id="visits-more", className="more"),
            html.Div([send, outcome("visits-outcome")], className="order-row"),
        ],
        id="visits-form",
        className="order",
        role="form",
    )


def unused(chosen: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that do not count with what is chosen, by name of a field."""
    return tuple(name for name, (other, value) in COUNTS_WITH.items() if chosen.get(other) != value)


def values_of(configured: Mapping[str, Any], ids: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The `value` of each field, as the configuration says."""
    flat = dict(configured) | {f"survey.{name}": value for name, value in configured["survey"].items()}
    return [_value(flat.get(str(named["field"]), no_update)) for named in ids]


def _value(given: Any) -> Any:
    return "" if given is None else given


def whole(given: Mapping[str, Any], configured: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is filled in with the rest of the survey as the configuration has it: what the daemon would check."""
    survey = {} if configured is None else configured["survey"]
    return dict(given) | {"survey": dict(survey) | given.get("survey", {})}


LOOK_MS = 3000
AGAIN_MS = 8000
"""After which past runs are looked for while nothing changes."""

TILES: tuple[tuple[str, str], ...] = (
    ("state", "State"),
    ("done", "Visits done"),
    ("mean", "Seconds per visit"),
    ("split", "Select / store"),
    ("over", "Over the limit"),
    ("left", "Time left"),
)
"""Name, label."""

SIZES = [
    Column(name="table", label="Table", width=140, wide=True),
    Column(name="rows", label="Rows", title="≈: the server’s estimate", width=104, wide=True),
    Column(name="expected", label="Expected", title="by the formula of the survey", width=88, wide=True),
    Column(name="off", label="Difference", width=94, wide=True),
    Column(name="size", label="Table", width=84, wide=True),
    Column(name="index", label="Indexes", width=84, wide=True),
    Column(name="each", label="Bytes per row", title="with its indexes", width=112, wide=True),
]
FITS = [
    Column(name="line", label="Line", width=106, wide=True),
    Column(name="at", label="At visit 0, s", width=104, wide=True),
    Column(name="slope", label="Per 1,000 visits, s", width=136, wide=True),
    Column(name="interval", label="95 % confidence", title="of the slope", width=160, wide=True),
    Column(name="visits", label="Visits", width=70, wide=True),
]
PAST = [
    Column(name="id", label="Run", press=True, width=190, wide=True),
    Column(name="mode", label="Index mode", words=True, width=120, wide=True),
    Column(name="visits", label="Visits", width=64, wide=True),
    Column(name="lasted", label="Lasted", width=106, wide=True),
    Column(name="problem", label="Ended early", words=True, width=88, wide=True),
    Column(name="files", links=True, width=182, wide=True),
]


def panel() -> list[Any]:
    """The run that is shown, past runs, and a form for the next."""
    return [
        tick("visits-tick", "visits", every_ms=1000),
        tick("visits-look", "visits", every_ms=LOOK_MS),
        tick("visits-again", every_ms=AGAIN_MS),
        *(dcc.Store(id=f"visits-{name}") for name in ("known", "listed", "told", "drawn", "configured")),
        html.Div([_problem(), _run(), _shown(), _last()], className="stack"),
    ]


def _problem() -> Any:
    return html.P("", id="visits-problem", className="outcome", role="status", hidden=True, **data(level="wrong"))


def _run() -> Any:
    stop = html.Button("Stop after this visit", id="visits-stop", className="plain", type="button")
    order = [html.Span("", id="visits-phase"), stop, outcome("visits-stopped")]
    return html.Section(
        [
            html.H2("Visits", id="visits-title"),
            html.P(ASKING, id="visits-summary", className="hint"),
            html.P(EMPTY, id="visits-empty", className="hint", hidden=True),
            html.Progress(id="visits-progress", hidden=True, **aria("Visits done")),
            html.Div(order, id="visits-order", className="order-row", hidden=True),
        ],
        id="visits-run",
        className="panel stack",
        **aria("Run of visits"),
    )


def _shown() -> Any:
    low = [
        _figure("Seconds per visit, by bin", "boxes", LOW),
        _figure("Seconds per visit, by step", "parts", LOW),
        _figure("Visits over the limit, %", "over", LOW),
    ]
    tables = [
        _table("Tables and indexes", "sizes", SIZES, "No sizes yet: they are measured every few visits."),
        _table("Fitted lines", "fits", FITS, "A line is fitted once there are enough visits."),
    ]
    return html.Div(
        [
            tiles_section("visits", TILES),
            html.Div(
                [_seconds(), _figure("The field on the southern sky", "sky", TALL)],
                className="columns",
                style=widths(2.4, 1),
            ),
            html.Div(low, className="charts"),
            html.Div(tables, className="columns", style=widths(1.25, 1)),
        ],
        id="visits-shown",
        className="stack",
        hidden=True,
    )


def _last() -> Any:
    start = html.Section(
        [panel_head("Start a run", "visits-form-note"), visits_form()], className="panel", **aria("Start a run")
    )
    past = _table("Past runs", "past", PAST, "None yet.")
    return html.Div([start, past], className="columns", style=widths(1, 1.3))


def step_keys(figures: VisitsFigures) -> list[Any]:
    """What the colours of the steps mean."""
    return [key(label, colour, "block") for _, label, colour in used_steps(figures)]


def _seconds() -> Any:
    keys = [key(label, colour) for _, label, colour in SERIES]
    keys += [key("the paper’s line", INK, "dotted"), key("limit", LIMIT, "dashed")]
    scale = dmc.SegmentedControl(
        id="visits-scale",
        value="linear",
        size="sm",
        data=[{"value": "linear", "label": "Linear"}, {"value": "log", "label": "Logarithmic"}],
    )
    axis = html.Span(scale, className="visits-axis", **aria("Axis of the seconds"), role="group")
    return _figure("Seconds per visit against visit", "time", TALL, html.Span(keys, className="keys"), axis)


def _figure(title: str, name: str, height: int, *beside: Any) -> Any:
    figure = sky(None, None) if name == "sky" else empty(height)
    return drawn_panel(f"visits-{name}", title, figure, height, *beside, note="keys" if name == "parts" else "aside")


def _table(title: str, name: str, shown: list[Column], nothing: str) -> Any:
    contents = [panel_head(title, f"visits-{name}-note"), table(f"visits-{name}", shown, nothing)]
    return html.Section(contents, className="panel", **aria(title))

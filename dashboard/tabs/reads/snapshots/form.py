"""The form that starts snapshot readers: the fields of their settings, filled in for a run of some two minutes."""

from collections.abc import Mapping
from typing import Any

from dash import html

from dashboard.tabs.forms import Field, fields, inputs, outcome
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

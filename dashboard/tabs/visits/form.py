"""The form that starts a run of visits: the fields of its settings, and for which choice each counts at all."""

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html, no_update

from dashboard.tabs.forms import Field, fields, inputs, outcome
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

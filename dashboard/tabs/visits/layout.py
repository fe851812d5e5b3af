"""The tab Visits: mock exposures of a telescope, how long each takes, and how that grows with the history.

The script in assets fills it from the section `visits` of the status, and from `GET /answers/visits` while it is seen.
"""

from typing import Any

from dash import html

from dashboard.tabs.parts import HIDDEN, aria, panel_head, section

TILES: tuple[tuple[str, str], ...] = (
    ("state", "State"),
    ("done", "Visits done"),
    ("mean", "Seconds per visit"),
    ("split", "Select / store"),
    ("over", "Over the limit"),
    ("left", "Time left"),
)
"""Name, label."""

KEYS: tuple[tuple[str, str], ...] = (
    ("total", "total"),
    ("select", "select"),
    ("store", "store"),
    ("paper", "the paper’s line"),
    ("limit", "limit"),
)
"""Class of the key, label: what is drawn of a visit's seconds."""


def panel() -> list[Any]:
    """The run that is shown, past runs, and a form for the next."""
    return [
        html.Div(
            className="stack",
            children=[
                html.P("", id="visits-problem", className="outcome", role="status", hidden=True),
                html.Section(id="visits-run", className="panel stack", **aria("Run of visits")),
                html.Div(
                    id="visits-shown",
                    className="stack",
                    hidden=True,
                    children=[
                        html.Section(
                            [_tile(name, label) for name, label in TILES],
                            className="visit-tiles",
                            **aria("Figures of the run"),
                        ),
                        html.Div(
                            className="visits-wide",
                            children=[_seconds(), _figure("The field on the southern sky", "visits-sky")],
                        ),
                        html.Div(
                            className="charts thirds",
                            children=[
                                _figure("Seconds per visit, by bin", "visits-boxes"),
                                _figure("Seconds per visit, by step", "visits-parts"),
                                _figure("Visits over the limit, %", "visits-over"),
                            ],
                        ),
                        html.Div(
                            className="columns",
                            children=[
                                section("Tables and indexes", "visits-sizes", "visits-sizes-note"),
                                section("Fitted lines", "visits-fits", "visits-fits-note"),
                            ],
                        ),
                    ],
                ),
                html.Div(
                    className="columns visits-last",
                    children=[
                        html.Section(
                            [panel_head("Start a run", "visits-form-note"), html.Div(id="visits-form")],
                            className="panel",
                            **aria("Start a run"),
                        ),
                        section("Past runs", "visits-past", "visits-past-note"),
                    ],
                ),
            ],
        )
    ]


def _tile(name: str, label: str) -> Any:
    number = html.P([html.Span("–", className="value"), html.Span("", className="unit")], className="number")
    return html.Div([html.H2(label), number, html.P("", className="aside")], id=f"visits-tile-{name}", className="tile")


def _seconds() -> Any:
    keys = [html.Span([html.I(className=f"of-{name}", **HIDDEN), label], className="key") for name, label in KEYS]
    caption = html.Figcaption(
        [
            html.H2("Seconds per visit against visit"),
            html.Span(keys, className="keys"),
            _note("visits-time"),
            html.Span(id="visits-axis"),
        ],
        className="panel-head",
    )
    return html.Figure([caption, html.Div(id="visits-time", className="visits-drawn tall")], className="panel")


def _figure(title: str, name: str) -> Any:
    caption = html.Figcaption([html.H2(title), _note(name)], className="panel-head")
    return html.Figure([caption, html.Div(id=name, className="visits-drawn")], className="panel")


def _note(name: str) -> Any:
    return html.Span("", id=f"{name}-note", className="aside")

"""The tab Instruments: the grid, the worst instruments, and the orbit.

The script in assets fills it, from the stream and while it is seen from `GET /answers/groups/...`.
"""

from typing import Any

from dash import dcc, html

from dashboard.tabs.figures import empty, graph_config
from dashboard.tabs.instruments.routes import LASTS
from dashboard.tabs.parts import aria, attributes

ORBIT_HEIGHT = 330


def panel() -> list[Any]:
    """The grid, which the script moves to the tab that is seen; the list of the worst; the orbit."""
    return [
        html.Section(className="grids", **aria("Instruments, each with its state")),
        html.Div(className="columns worst", children=[_worst(), _orbit()]),
    ]


def _worst() -> Any:
    lasts = [html.Option(f"{last:,}", value=str(last)) for last in LASTS]
    return html.Section(
        className="panel",
        children=[
            html.Div(
                [
                    html.H2("Worst of the last"),
                    html.Select(lasts, id="missing-last", **attributes(aria_label="Triggers looked back at")),
                    html.H2("triggers"),
                    html.Span("", id="worst-note", className="note"),
                ],
                className="panel-head",
            ),
            html.Div(id="worst"),
        ],
    )


def _orbit() -> Any:
    return html.Section(
        className="panel",
        children=[
            html.Div(
                [
                    html.H2("Orbit"),
                    html.Select(id="orbit-choice", **attributes(aria_label="What is plotted against the instruments")),
                    html.Span("", id="orbit-note", className="note"),
                ],
                className="panel-head",
            ),
            dcc.Graph(
                id="orbit",
                figure=empty(ORBIT_HEIGHT),
                config=graph_config(),
                style={"height": f"{ORBIT_HEIGHT}px"},
            ),
            html.P("", id="orbit-missing", className="hint"),
        ],
    )

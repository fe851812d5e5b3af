"""The tab Interference: what reading does to the writing, measured in blocks with readers and without.

The script in assets fills it from `GET /answers/interference` while it is seen, and from the record that is chosen.
"""

from typing import Any

from dash import html

from dashboard.tabs.parts import aria, section


def panel() -> list[Any]:
    """The experiment that is shown, past experiments, and a form for the next."""
    return [
        html.Div(
            className="stack",
            children=[
                html.P("", id="experiment-problem", className="outcome", role="status", hidden=True),
                html.Section(id="experiment", className="panel stack", **aria("Experiment")),
                html.Div(
                    className="interference",
                    children=[
                        _figure("Writing while others read", "experiment-time", "experiment-time-note"),
                        _figure("Readers and commit p99", "experiment-dose", "experiment-dose-note"),
                    ],
                ),
                html.Div(id="experiment-result", className="stack"),
                html.Div(
                    className="columns",
                    children=[
                        section("Start an experiment", "experiment-form", "experiment-lasts"),
                        section("Past experiments", "experiments-past", "experiments-note"),
                    ],
                ),
            ],
        )
    ]


def _figure(title: str, name: str, note: str) -> Any:
    caption = html.Figcaption([html.H2(title), html.Span("", id=note, className="aside")], className="panel-head")
    return html.Figure([caption, html.Div(id=f"{name}-keys"), html.Div(id=name, className="drawn")], className="panel")

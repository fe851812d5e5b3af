"""The tab Reads: reader workloads, the governor that limits them, and the forms that start them.

The script in assets fills it from the sections `readers` and `governor`.
"""

from typing import Any

from dash import html

from dashboard.tabs.figures import CALM, GREY
from dashboard.tabs.parts import aria, chart_panel, panel_head


def panel() -> list[Any]:
    """Workloads, their charts, the governor, and a form."""
    return [
        html.Div(
            className="stack",
            children=[
                html.Section(
                    [
                        panel_head("Reader workloads", "readers-note"),
                        html.Div(id="readers"),
                        _outcome("readers-outcome"),
                    ],
                    className="panel",
                ),
                html.Section(
                    [
                        chart_panel("reads", "Answers/s", (("answers", "reads", CALM),), "/s"),
                        chart_panel("readers", "Clients that may ask", (("clients", "readers", GREY),), "clients"),
                        chart_panel("read-p99", "p99 of the slowest workload", (("p99", "read_p99", CALM),), "ms"),
                    ],
                    className="charts thirds",
                    **aria("Charts of the reading"),
                ),
                html.Div(
                    className="columns",
                    children=[
                        html.Section(
                            [panel_head("Start a workload", "reader-kind-note"), html.Div(id="reader-form")],
                            className="panel",
                        ),
                        html.Section(
                            [
                                panel_head("Governor", "governor-state"),
                                html.P(id="governor-reason"),
                                html.P(
                                    "With a ceiling set, readers are admitted only while the writing stays below it: "
                                    "otherwise fewer of them ask, or less often.",
                                    className="hint",
                                ),
                                html.Div(id="governor-form"),
                            ],
                            className="panel stack",
                        ),
                    ],
                ),
            ],
        )
    ]


def _outcome(name: str) -> Any:
    return html.P("", id=name, className="outcome", role="status")

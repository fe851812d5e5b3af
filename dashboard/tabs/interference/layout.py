"""The layout of the tab Interference: the experiment that is shown, those that were, and a form for the next."""

from typing import Any

from dash import dcc, html

from dashboard.tabs.figures import empty, graph_config
from dashboard.tabs.forms import outcome
from dashboard.tabs.interference.figures import HEIGHT
from dashboard.tabs.interference.form import form_section
from dashboard.tabs.parts import ASKING, aria, panel_head, room, tick, widths
from dashboard.tabs.tables import Column, columns, table

FIGURES = [
    Column(name="figure", label="Figure", width=250, wide=True),
    *columns(
        ("readers", "Readers"),
        ("a", "A, without"),
        ("b", "B, with"),
        ("ratio", "B to A"),
    ),
    Column(name="interval", label="95 % confidence", width=130, wide=True),
    Column(name="n", label="Pairs"),
    Column(name="verdict", label="Conclusion", words=True, width=400, wide=True),
]
READERS = [
    Column(name=name, label=label, width=least, wide=True)
    for name, label, least in (
        ("workload", "Workload", 78),
        ("readers", "Readers", 78),
        ("admitted", "Of this workload", 78),
        ("cycles", "Answers", 78),
        ("failed", "Failed", 70),
        ("rate", "Answers/s", 84),
        ("rows", "Rows/s", 70),
        ("p50", "p50 ms", 70),
        ("p99", "p99 ms", 70),
        ("deadline", "Deadline ms", 78),
        ("efficiency", "In time", 78),
    )
]
SERVER = [
    Column(name="name", label="Counter, per second", words=True, width=150, wide=True),
    *(
        Column(name=name, label=label, width=96, wide=True)
        for name, label in (("a", "A"), ("b", "B"), ("ratio", "B to A"))
    ),
]
PAST = [
    Column(name="id", label="Experiment", press=True, width=204, wide=True),
    Column(name="what", label="Readers", words=True, width=142, wide=True),
    Column(name="state", label="State", words=True, width=110, wide=True),
    Column(name="p99", label="p99, B to A", width=78, wide=True),
    Column(name="rate", label="Rate, B to A", width=78, wide=True),
    Column(name="report", label="Report", links=True, width=72, wide=True),
]
NONE_OVER = "No block with readers between two without is over yet."


def panel() -> list[Any]:
    """The experiment that is shown, past experiments, and a form for the next."""
    return [
        tick("experiment-tick", every_ms=1000),
        dcc.Store(id="experiment-stamp"),
        dcc.Store(id="experiments-stamp"),
        dcc.Store(id="experiment-mark"),
        html.Div(
            [
                html.P("", id="experiment-problem", className="outcome", role="status", hidden=True, **WRONG),
                _head(),
                html.Div(
                    [_time(), _dose()], id="experiment-charts", className="columns", style=widths(1.9, 1), hidden=True
                ),
                _result(),
                html.Div([form_section(), _past()], className="columns"),
            ],
            className="stack",
        ),
    ]


WRONG: dict[str, Any] = {"data-level": "wrong"}


def _head() -> Any:
    stop = html.Button("Stop the experiment", id="experiment-stop", className="plain", type="button")
    return html.Section(
        [
            html.H2(ASKING, id="experiment-title"),
            html.P("", id="experiment-summary", className="hint"),
            html.Div(
                [
                    html.Progress(id="experiment-progress", max="1", value="0", **aria("Blocks that are over")),
                    html.Div(
                        [
                            html.Span("", id="experiment-phase", className="phase"),
                            stop,
                            outcome("experiment-stopped"),
                        ],
                        className="order-row",
                    ),
                ],
                id="experiment-running",
                className="stack",
                hidden=True,
            ),
            html.P("", id="experiment-verdict", className="verdict outcome", hidden=True),
        ],
        id="experiment",
        className="panel stack",
        **aria("Experiment"),
    )


def _time() -> Any:
    return _figure("Writing while others read", "experiment-time")


def _dose() -> Any:
    keys = html.Div(
        id="experiment-dose-keys",
        className="segments",
        role="group",
        hidden=True,
        **aria("Mark the blocks with this number of readers"),
    )
    return _figure("Readers and commit p99", "experiment-dose", keys)


def _figure(title: str, name: str, *keys: Any) -> Any:
    caption = html.Figcaption(
        [html.H2(title), html.Span("", id=f"{name}-note", className="aside")], className="panel-head"
    )
    graph = dcc.Graph(id=name, figure=empty(HEIGHT), config=graph_config(), style={"height": f"{HEIGHT}px"})
    return html.Figure([caption, *keys, html.Div(graph, style=room(HEIGHT))], className="panel")


def _result() -> Any:
    return html.Div(
        [
            _table("experiment-figures", "Writing, without and with readers", FIGURES, NONE_OVER),
            html.Div(
                [
                    _table("experiment-readers", "Readers", READERS),
                    _table("experiment-server", "Counters of the server", SERVER),
                ],
                className="columns",
                style=widths(1.75, 1),
            ),
            html.Div(id="experiment-remarks", className="hint"),
        ],
        id="experiment-result",
        className="stack",
        hidden=True,
    )


def _table(name: str, title: str, shown: list[Column], empty_words: str = "") -> Any:
    return html.Section(
        [panel_head(title, f"{name}-note"), table(name, shown, empty_words)],
        id=f"{name}-section",
        className="panel",
        **aria(title),
    )


def _past() -> Any:
    return html.Section(
        [
            panel_head("Past experiments", "experiments-note"),
            table("experiments-past", PAST, "None yet."),
        ],
        className="panel",
        **aria("Past experiments"),
    )

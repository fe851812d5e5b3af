"""The Live page: an empty frame with names, which the scripts in assets fill four times a second."""

from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from dashboard.figures import CALM, CHART_HEIGHT, GREY, chart, graph_config
from dashboard.instrument import drawer

RANGES: tuple[tuple[str, str], ...] = (("1m", "1 m"), ("5m", "5 m"), ("1h", "1 h"))

TILES: tuple[tuple[str, str, str], ...] = (
    ("received", "Triggers", "/s"),
    ("written", "Readings written", "/s"),
    ("p50", "Commit p50", "ms"),
    ("p99", "Commit p99", "ms"),
    ("waiting", "Backlog", "waiting"),
    ("absent", "Missing instruments", ""),
)
"""Column of frames.COLUMNS, label, unit."""

HIDDEN: dict[str, Any] = {"aria-hidden": "true"}
UNPRESSED: dict[str, Any] = {"aria-pressed": "false"}


def _aria(label: str, **further: str) -> dict[str, Any]:
    return {"aria-label": label} | {name.replace("_", "-"): value for name, value in further.items()}


def _data(**named: str) -> dict[str, Any]:
    return {f"data-{name}": value for name, value in named.items()}


def page(build: str) -> Any:
    """The whole layout."""
    return dmc.MantineProvider(
        forceColorScheme="dark",
        children=html.Div(
            id="page",
            **_data(link="none", build=build),
            children=[
                header(),
                html.Div(id="banner", role="alert", hidden=True),
                html.Section(id="alarms", **_aria("Alarms", aria_live="polite")),
                html.Main(
                    [
                        html.Div(
                            id="groups", role="group", className="segments", hidden=True, **_aria("Instrument group")
                        ),
                        html.Div(
                            className="live",
                            children=[tiles(), controls(), charts(), totals(), instruments(), events()],
                        ),
                    ]
                ),
                html.Footer(id="footer"),
                drawer(),
            ],
        ),
    )


def header() -> Any:
    """Who, what, where to, and whether it is live."""
    return html.Header(
        [
            html.H1("triggerlog"),
            html.Div(id="who", className="facts"),
            html.Div(id="store", className="facts"),
            html.Time(id="clock", title="Coordinated Universal Time"),
            html.Div(
                id="badge",
                role="status",
                children=[
                    html.Span("○", id="badge-glyph", **HIDDEN),
                    html.Span("NO DATA", id="badge-text"),
                    html.Span("", id="badge-age", **HIDDEN),
                ],
            ),
        ]
    )


def controls() -> Any:
    """Which stretch of time, and a pause."""
    buttons = [html.Button(label, className="range", **_data(range=name), **UNPRESSED) for name, label in RANGES]
    return html.Div(
        className="controls",
        children=[
            html.Span(id="paused", role="status"),
            html.Div(buttons, role="group", className="segments", **_aria("Time range of the charts")),
            html.Button("Pause charts", id="pause", **UNPRESSED),
        ],
    )


def tiles() -> Any:
    """The six numbers."""
    return html.Section(
        [_tile(column, label, unit) for column, label, unit in TILES],
        className="tiles",
        **_aria("Figures of the group"),
    )


def _tile(column: str, label: str, unit: str) -> Any:
    return html.Div(
        id=f"tile-{column}",
        className="tile",
        children=[
            html.H2(label),
            html.P([html.Span("–", className="value"), html.Span(unit, className="unit")], className="number"),
            html.P("", className="beside"),
            html.Div(className="spark", **HIDDEN),
        ],
    )


def charts() -> Any:
    """The four charts."""
    drawn = (
        ("rates", "Triggers/s", (("received", "received", GREY), ("committed", "committed", CALM)), "/s"),
        ("latency", "Commit latency", (("p50", "p50", GREY), ("p99", "p99", CALM)), "ms"),
        ("backlog", "Backlog", (("open", "open", GREY), ("waiting", "waiting", CALM)), "triggers"),
        ("missing", "Missing a trigger", (("missing", "missing", CALM),), "instruments"),
    )
    return html.Section(
        [_chart(name, title, traces, unit) for name, title, traces, unit in drawn],
        className="charts",
        **_aria("Charts"),
    )


def _chart(name: str, title: str, traces: tuple[tuple[str, str, str], ...], unit: str) -> Any:
    keys = [html.Span([html.I(style={"background": colour}), label], className="key") for label, _, colour in traces]
    return html.Figure(
        className="panel",
        children=[
            html.Figcaption(
                [
                    html.H2(title),
                    html.Span(keys if len(keys) > 1 else [], className="keys"),
                    html.Span("", id=f"note-{name}", className="note"),
                ]
            ),
            dcc.Graph(
                id=f"chart-{name}",
                className="chart",
                figure=chart(*traces, unit=unit),
                config=graph_config(),
                style={"height": f"{CHART_HEIGHT}px"},
            ),
        ],
    )


def totals() -> Any:
    """The conservation equation, with numbers."""
    return html.Section(id="totals", className="panel totals", **_aria("Readings since the daemon started"))


def instruments() -> Any:
    """One grid a group, made by the script when it knows the names."""
    return html.Section(id="grids", **_aria("Instruments"))


def events() -> Any:
    """The last events."""
    return html.Section([html.H2("Last events"), html.Ol(id="events")], className="panel events")

"""The page: its frame and tabs, empty and with names, which the scripts in assets fill four times a second."""

from typing import Any

import dash_mantine_components as dmc
from dash import html

from dashboard.tabs import TABS
from dashboard.tabs.parts import HIDDEN, UNPRESSED, aria, attributes, data

RANGES: tuple[tuple[str, str, float | None], ...] = (
    ("1m", "1 m", 60.0),
    ("5m", "5 m", 300.0),
    ("1h", "1 h", 3600.0),
    ("run", "run", None),
)
"""Name in the address, label, width in seconds; None is the whole run."""

TILES: tuple[tuple[str, str, str], ...] = (
    ("received", "Triggers", "/s"),
    ("written", "Readings written", "/s"),
    ("p50", "Commit p50", "ms"),
    ("p99", "Commit p99", "ms"),
    ("waiting", "Backlog", "waiting"),
    ("absent", "Missing instruments", ""),
    ("reads", "Reads", "/s"),
)
"""Column of frames.COLUMNS, label, unit."""


def page(build: str) -> Any:
    """The whole layout."""
    return dmc.MantineProvider(
        forceColorScheme="dark",
        children=html.Div(
            id="page",
            **data(link="none", build=build),
            children=[
                header(),
                html.Div(id="banner", role="alert", hidden=True),
                html.Section(id="alarms", **aria("Alarms")),
                html.Div(id="alarm-news", role="status", className="unseen"),
                html.Main(html.Div([tiles(), bar(), *panels()], className="live")),
                html.Footer(id="footer"),
                *(tab.overlay() for tab in TABS if tab.overlay is not None),
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
            html.Div(id="disk", className="facts"),
            html.Time(id="clock", title="Coordinated Universal Time"),
            html.Div(id="alarm-count"),
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


def tiles() -> Any:
    """The numbers that stand above every tab."""
    return html.Section(
        [_tile(column, label, unit) for column, label, unit in TILES],
        className="tiles",
        **aria("Figures of the group"),
    )


def _tile(column: str, label: str, unit: str) -> Any:
    return html.Div(
        id=f"tile-{column}",
        className="tile",
        children=[
            html.H2(label),
            html.P([html.Span("–", className="value"), html.Span(unit, className="unit")], className="number"),
            html.P("", className="aside"),
            html.Div(className="spark", **HIDDEN),
        ],
    )


def bar() -> Any:
    """The tabs, and beside them what holds for all charts: group, range of time, pause."""
    tabs = [
        html.Button(
            tab.title,
            id=f"tab-{tab.key}",
            role="tab",
            tabIndex=0 if place == 0 else -1,
            **data(tab=tab.key),
            **attributes(aria_selected=str(place == 0).lower(), aria_controls=f"panel-{tab.key}"),
        )
        for place, tab in enumerate(TABS)
    ]
    ranges = [html.Button(label, className="range", **data(range=name), **UNPRESSED) for name, label, _ in RANGES]
    return html.Div(
        className="bar",
        children=[
            html.Div(tabs, id="tabs", role="tablist", **aria("What is shown")),
            html.Div(
                className="controls",
                children=[
                    html.Span(id="paused", role="status"),
                    html.Div(id="groups", role="group", className="segments", hidden=True, **aria("Instrument group")),
                    html.Div(ranges, role="group", className="segments", **aria("Time range of the charts")),
                    html.Button("Pause charts", id="pause", **UNPRESSED),
                ],
            ),
        ],
    )


def panels() -> list[Any]:
    """A panel a tab; the script shows one of them."""
    return [
        html.Div(
            tab.layout(),
            id=f"panel-{tab.key}",
            className="tab-panel",
            role="tabpanel",
            hidden=place > 0,
            **attributes(aria_labelledby=f"tab-{tab.key}"),
        )
        for place, tab in enumerate(TABS)
    ]

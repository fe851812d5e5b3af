"""The tab Live: rates, latency and state of the writing now."""

from typing import Any

from dash import html

from dashboard.tabs.figures import CALM, GREY
from dashboard.tabs.parts import aria, chart_panel

CHARTS: tuple[tuple[str, str, tuple[tuple[str, str, str], ...], str], ...] = (
    ("rates", "Triggers/s", (("received", "received", GREY), ("committed", "committed", CALM)), "/s"),
    ("latency", "Commit latency", (("p50", "p50", GREY), ("p99", "p99", CALM)), "ms"),
    ("backlog", "Backlog", (("open", "open", GREY), ("waiting", "waiting", CALM)), "triggers"),
    ("missing", "Missing per trigger", (("missing", "missing", CALM),), "instruments"),
)
"""Name, title, traces, unit."""


def panel() -> list[Any]:
    """Charts, the conservation equation, the grid of instruments, the last events."""
    return [
        html.Section([chart_panel(*drawn) for drawn in CHARTS], className="charts", **aria("Charts")),
        html.Section(id="totals", className="panel totals", **aria("Readings since the daemon started")),
        html.Section(className="grids", **aria("Instruments")),
        html.Section([html.H2("Last events"), html.Ol(id="events")], className="panel events"),
    ]

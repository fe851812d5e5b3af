"""The tab Instruments: the grid, who does worst, and the orbit."""

from typing import Any

from dash import html

from dashboard.parts import aria


def panel() -> list[Any]:
    """The grid; the script moves it to the tab that is seen."""
    return [html.Section(className="grids", **aria("Instruments, each with its state"))]

"""The tab Interference: what reading does to the writing."""

from typing import Any

from dash import html


def panel() -> list[Any]:
    """The experiment that runs."""
    return [html.Section([html.H2("Interference experiment"), html.P(id="experiment")], className="panel")]

"""The tab Storage: where the readings lie, and how much room there is."""

from typing import Any

from dash import html


def panel() -> list[Any]:
    """The database and its durability in force."""
    return [html.Section([html.H2("Database"), html.P(id="storage")], className="panel")]

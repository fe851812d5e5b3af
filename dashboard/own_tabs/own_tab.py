"""What a file with a tab gives to the page, and the panel for a figure that it draws."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from dash import dcc, html

from dashboard.own_tabs.callbacks import Callbacks
from dashboard.own_tabs.questions import Questions
from dashboard.tabs.figures import GRAPH_HEIGHT, empty, graph_config


@dataclass(frozen=True, kw_only=True)
class OwnTab:
    """What `tab()` returns.

    layout: awaited when a browser first opens the tab; gives what is in its panel, a list of Dash components.
    callbacks: called once at the start of the page, to register what Dash calls back on, each by `@app.callback`.
    title: what a person reads; the name of the file, if it is None.
    """

    layout: Callable[[Questions], Awaitable[list[Any]]]
    callbacks: Callable[[Callbacks, Questions], None] | None = None
    title: str | None = None


def graph_panel(name: str, title: str, *, height: int = GRAPH_HEIGHT) -> Any:
    """A panel for a figure that a callback draws: `Output(name, "figure")`. height: in px."""
    graph = dcc.Graph(id=name, figure=empty(height), config=graph_config(), style={"height": f"{height}px"})
    return html.Figure([html.Figcaption(html.H2(title)), graph], className="panel")

"""What a tab of the page is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dash import Dash

from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub


@dataclass(frozen=True, kw_only=True)
class Tab:
    """A tab, as the frame of the page and the application take it up.

    key: its name in the address and in the ids of its elements, `tab-KEY` and `panel-KEY`.
    title: what a person reads.
    layout: makes what is in its panel, when it is first opened.
    needs: scripts that its components are in, loaded before that.
    overlay: makes what it shows beside the page, such as a drawer.
    callbacks: registers what Dash calls back on.
    """

    key: str
    title: str
    layout: Callable[[], list[Any]]
    needs: tuple[str, ...] = ()
    overlay: Callable[[], Any] | None = None
    callbacks: Callable[[Dash, Hub, DaemonApi], None] | None = None

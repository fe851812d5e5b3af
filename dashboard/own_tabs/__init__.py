"""Tabs of a site's own: what a file named in `[dashboard] tabs` may use (docs/own-tab.md).

A file has a function `tab()` that gives an `OwnTab`. It is made of the same parts as the tabs of the page, and asks the
daemon by `Questions`. In order of reading: `questions`, `callbacks`, `loading`.
"""

from dashboard.own_tabs.callbacks import Callbacks, OwnTab, graph_panel
from dashboard.own_tabs.questions import Group, Newest, Questions, Series
from dashboard.tabs.figures import house_style
from dashboard.tabs.parts import chart_panel, live, over, tick, when

__all__ = [
    "Callbacks",
    "Group",
    "Newest",
    "OwnTab",
    "Questions",
    "Series",
    "chart_panel",
    "graph_panel",
    "house_style",
    "live",
    "over",
    "tick",
    "when",
]

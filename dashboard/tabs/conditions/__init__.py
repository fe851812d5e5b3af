"""The tab Conditions: what their server does, its tags, intervals of a type, how tags differ, who asks, and folders."""

from dashboard.tabs.conditions.callbacks import callbacks
from dashboard.tabs.conditions.layout import panel
from dashboard.tabs.tab import Tab
from dashboard.tabs.tables import GRID

TAB = Tab(key="conditions", title="Conditions", layout=panel, needs=GRID, callbacks=callbacks)

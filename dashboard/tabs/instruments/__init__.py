"""The tab Instruments: the state of each, who is missing most, and the orbit.

The drawer with one instrument's trend opens from the tab Live, too.
"""

from dashboard.tabs.instruments.drawer import drawer, register
from dashboard.tabs.instruments.layout import panel
from dashboard.tabs.instruments.routes import group_routes
from dashboard.tabs.tab import Tab

TAB = Tab(key="instruments", title="Instruments", layout=panel, overlay=drawer, routes=group_routes, callbacks=register)

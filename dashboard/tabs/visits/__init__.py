"""The tab Visits: runs of mock DIA visits."""

from dashboard.tabs.tab import Tab
from dashboard.tabs.tables import GRID
from dashboard.tabs.visits.callbacks import callbacks
from dashboard.tabs.visits.layout import panel

TAB = Tab(key="visits", title="Visits", layout=panel, needs=GRID, callbacks=callbacks)

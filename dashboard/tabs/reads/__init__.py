"""The tab Reads: reader workloads, and the governor that holds them back."""

from dashboard.tabs.reads.callbacks import callbacks
from dashboard.tabs.reads.layout import panel
from dashboard.tabs.tab import Tab
from dashboard.tabs.tables import GRID

TAB = Tab(key="reads", title="Reads", layout=panel, needs=GRID, callbacks=callbacks)

"""The tab Reads: reader workloads, the governor that holds them back, and snapshot readers."""

from dashboard.tabs.reads.callbacks import callbacks
from dashboard.tabs.reads.layout import panel
from dashboard.tabs.tab import Tab
from dashboard.tabs.tables import GRID

TAB = Tab(key="reads", title="Reads", layout=panel, needs=GRID, callbacks=callbacks)

"""The tab Storage: where the readings lie, and how much room there is."""

from dashboard.tabs.storage.callbacks import callbacks
from dashboard.tabs.storage.layout import panel
from dashboard.tabs.tab import Tab
from dashboard.tabs.tables import GRID

TAB = Tab(key="storage", title="Storage", layout=panel, needs=GRID, callbacks=callbacks)

"""The tab Live: how the writing goes now."""

from dashboard.tabs.live.layout import callbacks, panel
from dashboard.tabs.tab import Tab

TAB = Tab(key="live", title="Live", layout=panel, callbacks=callbacks)

"""The tab Interference: experiments that measure what reading does to the writing.

`measured` asks the daemon for experiments, and has what one has measured; `figures` and `rows` show it, and `form`
starts one.
"""

from dashboard.tabs.interference.callbacks import callbacks
from dashboard.tabs.interference.layout import panel
from dashboard.tabs.tab import Tab
from dashboard.tabs.tables import GRID

TAB = Tab(key="interference", title="Interference", layout=panel, needs=GRID, callbacks=callbacks)

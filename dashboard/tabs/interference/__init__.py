"""The tab Interference: experiments that measure what reading does to the writing.

`experiments` asks the daemon, `measured` is what is shown of an experiment; `figures`, `rows` and `words` draw it, and
`form` starts one.
"""

from dashboard.tabs.interference.callbacks import callbacks
from dashboard.tabs.interference.layout import panel
from dashboard.tabs.tab import Tab
from dashboard.tabs.tables import GRID

TAB = Tab(key="interference", title="Interference", layout=panel, needs=GRID, callbacks=callbacks)

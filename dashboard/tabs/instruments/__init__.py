"""The tab Instruments: the state of each, who is missing most, and the orbit.

`layout` has the elements, `callbacks` fill them with what `shown` has: the list of `worst`, and the `orbit`. The
`drawer` with one instrument's trend opens from the tab Live, too.
"""

from dashboard.tabs.instruments.callbacks import callbacks
from dashboard.tabs.instruments.drawer import drawer
from dashboard.tabs.instruments.layout import panel
from dashboard.tabs.tab import Tab
from dashboard.tabs.tables import GRID

TAB = Tab(key="instruments", title="Instruments", layout=panel, needs=GRID, overlay=drawer, callbacks=callbacks)

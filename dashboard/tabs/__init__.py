"""The tabs of the page, each a package with a descriptor `TAB` (`tab`).

The frame around them is `page`; what several of them are made of is in `parts` and `figures`. To add a tab: write its
package with a TAB, a line in TABS, and its tests.
"""

from dashboard.tabs.conditions import TAB as CONDITIONS
from dashboard.tabs.instruments import TAB as INSTRUMENTS
from dashboard.tabs.interference import TAB as INTERFERENCE
from dashboard.tabs.live import TAB as LIVE
from dashboard.tabs.reads import TAB as READS
from dashboard.tabs.storage import TAB as STORAGE
from dashboard.tabs.tab import Tab
from dashboard.tabs.visits import TAB as VISITS

TABS: tuple[Tab, ...] = (LIVE, INSTRUMENTS, READS, INTERFERENCE, VISITS, CONDITIONS, STORAGE)
"""In the order of the page; a number key opens the tab of that place."""

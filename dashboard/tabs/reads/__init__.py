"""The tab Reads: reader workloads, and the governor that holds them back."""

from dashboard.tabs.reads.layout import panel
from dashboard.tabs.tab import Tab

TAB = Tab(key="reads", title="Reads", layout=panel)

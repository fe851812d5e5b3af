"""The tab Storage: where the readings lie, and how much room there is."""

from dashboard.feed.relay import relay_routes
from dashboard.tabs.storage.layout import panel
from dashboard.tabs.tab import Tab

TAB = Tab(key="storage", title="Storage", layout=panel, routes=lambda _, api: relay_routes(api))

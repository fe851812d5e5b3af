"""The tab Interference: experiments that measure what reading does to the writing."""

from dashboard.tabs.interference.layout import panel
from dashboard.tabs.interference.routes import experiment_routes
from dashboard.tabs.tab import PLOTS, Tab

TAB = Tab(
    key="interference", title="Interference", layout=panel, needs=PLOTS, routes=lambda _, api: experiment_routes(api)
)

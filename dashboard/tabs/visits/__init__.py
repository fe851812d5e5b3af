"""The tab Visits: runs of mock DIA visits."""

from fastapi import APIRouter

from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.tabs.tab import PLOTS, Tab
from dashboard.tabs.visits.layout import panel
from dashboard.tabs.visits.routes import visit_routes


def _routes(hub: Hub, api: DaemonApi) -> APIRouter:
    return visit_routes(api, lambda: None if hub.status is None else hub.status.visits)


TAB = Tab(key="visits", title="Visits", layout=panel, needs=PLOTS, routes=_routes)

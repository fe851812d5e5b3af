"""What a person saves of a run of visits: its figures as files, and its report."""

from fastapi import APIRouter, Response

from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.feed.relay import file_of


def visit_routes(_: Hub, api: DaemonApi) -> APIRouter:
    """`GET /answers/visits/RUN/csv`, `parquet` and `report`."""
    routes = APIRouter(prefix="/answers/visits")

    @routes.get("/{run}/{kind}")
    async def file(run: str, kind: str) -> Response:
        return await file_of(api, "visits", run, kind)

    return routes

"""The reports of experiments, as browsers open them."""

from fastapi import APIRouter, Response

from dashboard.feed.client import DaemonApi
from dashboard.feed.relay import file_of


def report_routes(api: DaemonApi) -> APIRouter:
    """`GET /answers/interference/{experiment}/report`."""
    routes = APIRouter()

    @routes.get("/answers/interference/{experiment}/{kind}")
    async def file(experiment: str, kind: str) -> Response:
        return await file_of(api, "interference", experiment, kind)

    return routes

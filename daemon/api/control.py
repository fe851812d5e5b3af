"""Routes that change what the daemon does."""

from fastapi import APIRouter

from daemon.api.access import NEEDS_TOKEN
from daemon.api.service import ApiService, starting
from schemas.api.control import RunsOpened


def control_routes(service: ApiService) -> APIRouter:
    """Open a run."""
    routes = APIRouter(dependencies=[NEEDS_TOKEN])

    @routes.post("/api/v1/run", tags=["control"])
    async def open_run() -> RunsOpened:
        """Begin a new run in every group: the timing system was restarted and counts its triggers anew."""
        if not service.pipelines:
            raise starting()
        return RunsOpened(service.open_run())

    return routes

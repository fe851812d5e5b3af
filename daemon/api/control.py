"""Routes that change what the daemon does."""

from fastapi import APIRouter, HTTPException, Security
from fastapi.security import HTTPBearer

from daemon.api.service import Told


def control_routes(service: Told) -> APIRouter:
    """What the daemon can be told."""
    # Checked by the guard; this says so in the API's description, and lets `/docs` ask for the token.
    routes = APIRouter(dependencies=[Security(HTTPBearer(auto_error=False, description="The API's token."))])

    @routes.post("/api/v1/run", tags=["control"])
    async def open_run() -> dict[str, int]:
        """Begin a new run in every group: the timing system was restarted and counts its triggers anew."""
        if not service.pipelines:
            raise HTTPException(503, "the daemon is starting; the database is not open yet")
        return service.open_run()

    return routes

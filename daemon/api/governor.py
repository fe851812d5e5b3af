"""Route for what the governor promises the writing."""

from fastapi import APIRouter

from daemon.api.service import ApiService
from daemon.web.access import NEEDS_TOKEN
from schemas.api.status import GovernorStatus
from schemas.config.readers import GovernorConfig


def governor_routes(service: ApiService) -> APIRouter:
    """Set its ceilings; what it does is in the status."""
    routes = APIRouter(dependencies=[NEEDS_TOKEN])

    @routes.post("/api/v1/governor", tags=["control"])
    async def govern(ceilings: GovernorConfig) -> GovernorStatus:
        """Hold readers back as long as a ceiling is broken; without one, let every reader ask.

        What is left out is no ceiling. It holds until it is set again, `[readers.governor]` is changed in the
        configuration and read again, or the daemon ends.
        """
        service.workloads.governor.set(ceilings)
        return service.workloads.governor.status()

    return routes

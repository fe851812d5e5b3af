"""Routes for alarms."""

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import APIRouter

from daemon.alarms.keeper import NotInForce
from daemon.api.document import refusals
from daemon.api.service import ApiService
from daemon.web.access import NEEDS_TOKEN
from daemon.web.errors import ApiError
from schemas.api.alarms import AlarmKey, AlarmKeys, Alarms, Shelving


def alarms_routes(service: ApiService) -> APIRouter:
    """List them, acknowledge, shelve, show in full again."""
    routes = APIRouter(tags=["alarms"])
    unknown = refusals({404: "No such alarm is in force."})

    @routes.get("/api/v1/alarms")
    async def alarms() -> Alarms:
        """The alarms in force, as the status has them."""
        return Alarms(service.alarms.statuses())

    @routes.post("/api/v1/alarms/acknowledge", dependencies=[NEEDS_TOKEN], responses=unknown)
    async def acknowledge(alarms: AlarmKeys) -> Alarms:
        """Mark alarms as seen, until they end or become worse; without keys all that nobody has dealt with."""
        with _in_force(service):
            await service.alarms.acknowledge(alarms.keys)
        return Alarms(service.alarms.statuses())

    @routes.post("/api/v1/alarms/shelve", dependencies=[NEEDS_TOKEN], responses=unknown)
    async def shelve(shelving: Shelving) -> Alarms:
        """Put an alarm away for a time; it comes back earlier if it becomes more severe."""
        with _in_force(service):
            await service.alarms.shelve(shelving.key, shelving.for_s)
        return Alarms(service.alarms.statuses())

    @routes.post("/api/v1/alarms/reactivate", dependencies=[NEEDS_TOKEN], responses=unknown)
    async def reactivate(alarm: AlarmKey) -> Alarms:
        """Show an alarm in full again that was acknowledged or shelved."""
        with _in_force(service):
            await service.alarms.reactivate(alarm.key)
        return Alarms(service.alarms.statuses())

    return routes


@contextmanager
def _in_force(service: ApiService) -> Iterator[None]:
    try:
        yield
    except NotInForce as error:
        keys = ", ".join(alarm.key for alarm in service.alarms.statuses())
        raise ApiError(
            404, str(error), f"name one of: {keys}" if keys else "there is no alarm now", field="key"
        ) from None

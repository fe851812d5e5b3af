"""Route for events: what an operator should know, and what was ordered."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from daemon.api.query_limit import QueryLimit
from daemon.api.service import ApiService
from daemon.api.times import Moment
from daemon.core.outcome import reason_of
from daemon.web.errors import ApiError
from schemas.api.events import EventList
from schemas.states import Severity

LAST_MOST = 10_000


def events_routes(service: ApiService) -> APIRouter:
    """List them."""
    routes = APIRouter()

    @routes.get("/api/v1/events", tags=["status"], dependencies=[Depends(QueryLimit())])
    async def events(
        last: Annotated[int, Query(ge=1, le=LAST_MOST, description="At most so many, the newest.")] = 100,
        start_ns: Annotated[Moment, Query(description="Only those from here on.")] = -(2**63),
        severity: Annotated[Severity, Query(description="Only those that matter as much as this.")] = Severity.INFO,
    ) -> EventList:
        """Events, those of earlier daemons among them as far as the state folder has them."""
        try:
            found = [event for event in await service.events.since(start_ns) if event.severity in severity.or_more]
        except OSError as error:
            fix = "see that the daemon may read its state folder"
            raise ApiError(500, f"the events that are kept cannot be read: {reason_of(error)}", fix) from None
        return EventList(events=found[-last:], cut=len(found) > last)

    return routes

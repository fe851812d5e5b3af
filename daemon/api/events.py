"""Routes for what happens: events, alarms, and marks, which people note."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Response

from backends.base import StoreError
from daemon.alarms.keeper import NotInForce
from daemon.api.document import Responses, refusals
from daemon.api.parameters import Moment, QueryLimit
from daemon.api.readings import see_in_order
from daemon.api.service import ApiService, starting
from daemon.core.outcome import reason_of
from daemon.marks import MarkRefused, MarksNotKept
from daemon.web.access import NEEDS_TOKEN
from daemon.web.errors import ApiError
from schemas.api.alarms import AlarmKey, AlarmKeys, Alarms, Shelving
from schemas.api.control import EventList
from schemas.api.marks import MarkKept, Marks
from schemas.marks import Mark, MarksWithin
from schemas.states import Severity

EVENTS_MOST = 10_000


def events_routes(service: ApiService) -> APIRouter:
    """List them."""
    routes = APIRouter()

    @routes.get("/api/v1/events", tags=["status"], dependencies=[Depends(QueryLimit())])
    async def events(
        last: Annotated[int, Query(ge=1, le=EVENTS_MOST, description="At most so many, the newest.")] = 100,
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


MARKS_MOST = 10_000
WAITS = 202
"""The status of an order that is kept, and that the database does not have yet."""


MarkId = Annotated[UUID, Path(description="Id of a mark, which its maker gave it.")]


def marks_routes(service: ApiService) -> APIRouter:
    """List marks, make one, withdraw one."""
    away = "The daemon is starting, the database is away, or the disk does not take the mark."
    routes = APIRouter(responses=refusals({503: away}))
    waits: Responses = {WAITS: {"model": MarkKept, "description": "The daemon has it on its disk."}}
    taken = refusals({409: "Another mark has this id, or a mark that was withdrawn."})
    unknown = refusals({404: "There is no such mark."})

    @routes.get("/api/v1/marks", tags=["marks"], dependencies=[Depends(QueryLimit())])
    async def marks(
        last: Annotated[int, Query(ge=1, le=MARKS_MOST, description="At most so many, the newest.")] = 100,
        start_ns: Annotated[Moment, Query(description="Only what happens from here on, or still lasts.")] = -(2**63),
        end_ns: Annotated[Moment, Query(description="Only what begins before this.")] = 2**63 - 1,
    ) -> Marks:
        """Marks of a span of time that were not withdrawn."""
        see_in_order(start_ns, end_ns)
        if not service.pipelines:
            raise starting()
        with _refusals_answered():
            found = await service.marks.marks(MarksWithin(start_ns=start_ns, end_ns=end_ns, most=last))
        return Marks(marks=found, cut=len(found) == last)

    @routes.post(
        "/api/v1/marks", tags=["marks"], status_code=201, dependencies=[NEEDS_TOKEN], responses={**waits, **taken}
    )
    async def make(mark: Mark, response: Response) -> MarkKept:
        """Keep a mark with the data; the same again changes nothing.

        201: the database has it. 202: the daemon has it on its disk, and writes it when the database answers.
        """
        if mark.group is not None and mark.group not in service.groups:
            fix = f"name one of {', '.join(service.groups)}, or none for all of them"
            raise ApiError(422, f"there is no group {mark.group!r}", fix, field="group")
        with _refusals_answered():
            is_stored = await service.marks.keep(mark)
        return _answer(response, mark.id, is_stored)

    @routes.delete("/api/v1/marks/{id}", tags=["marks"], dependencies=[NEEDS_TOKEN], responses={**waits, **unknown})
    async def withdraw(id: MarkId, response: Response) -> MarkKept:  # noqa: A002 - the field's name
        """Withdraw a mark for good. 202: the daemon has that on its disk, and the database not yet."""
        with _refusals_answered():
            is_stored = await service.marks.withdraw(id)
        return _answer(response, id, is_stored)

    return routes


@contextmanager
def _refusals_answered() -> Iterator[None]:
    try:
        yield
    except MarkRefused as error:
        if error.is_unstorable:
            raise ApiError(422, str(error), "write it with characters that the database has", field="text") from None
        fix = "see `GET /api/v1/marks`" if error.is_unknown else "make the mark with a new id"
        raise ApiError(404 if error.is_unknown else 409, str(error), fix, field="id") from None
    except MarksNotKept as error:
        raise ApiError(503, str(error), error.fix) from None
    except StoreError as error:
        if error.is_away:
            raise
        raise ApiError(500, str(error), "see the log of the daemon") from None


def _answer(response: Response, mark: UUID, is_stored: bool) -> MarkKept:
    if not is_stored:
        response.status_code = WAITS
    return MarkKept(id=mark, stored=is_stored)

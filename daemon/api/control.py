"""Routes that change what the daemon does: announce a run, retry or discard what the database rejected."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from ipaddress import ip_address
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.api.document import refusals
from daemon.api.service import ApiService, starting
from daemon.core.monitoring.events import Events
from daemon.core.outcome import fix_of, reason_of
from daemon.pipeline.pipeline import Pipeline
from daemon.web.access import NEEDS_TOKEN, READING
from daemon.web.errors import ApiError, client_of, header
from schemas.api.control import Discarded, DiscardedByGroup, Retried, RetriedByGroup, RunsAnnounced

Epoch = Annotated[int, Query(ge=0, lt=2**32, description="The timing system's counter of restarts; 0 is unknown.")]
Group = Annotated[str | None, Query(description="Name of an instrument group; all of them if absent.")]


def control_routes(service: ApiService) -> APIRouter:
    """Announce a run; retry and discard dead letters."""
    away = "The daemon is starting, or the database is away."
    routes = APIRouter(tags=["control"], responses=refusals({503: away}))
    unknown = refusals({404: "There is no such group."})
    is_over = refusals({409: "The epoch is over."})
    under_way = refusals({404: "There is no such group.", 409: "The dead letters are being retried."})

    @routes.post("/api/v1/run", dependencies=[NEEDS_TOKEN], responses=is_over)
    async def announce_run(epoch: Epoch = 0) -> RunsAnnounced:
        """Announce that the timing system was restarted and counts its triggers anew.

        With its epoch the run begins at once, for readings of that epoch and for those without one. Without it a run
        begins with the next reading that has no epoch, whatever its number and time. Readings that complete a trigger
        of the run before still belong to that. An epoch that is over in a group is refused for all.

        With the answer the announcement is on the disk: it is followed after a restart of the daemon, too. Before the
        database has answered it takes its place behind what was received by then.
        """
        return await _announced(service, epoch)

    @routes.post("/api/v1/dead-letters/retry", dependencies=[NEEDS_TOKEN], responses=unknown)
    async def retry(group: Group = None) -> RetriedByGroup:
        """Begin to offer the dead letters to the database again, in order; the same address tells how far that is."""
        chosen = _chosen(service, group)
        for each in chosen.values():
            each.letters.begin_retry()
        return _retried(chosen)

    @routes.get("/api/v1/dead-letters/retry", responses=unknown)
    async def retried(group: Group = None) -> RetriedByGroup:
        """What became of the dead letters that were offered last, up to now."""
        return _retried(_chosen(service, group))

    @routes.post("/api/v1/dead-letters/discard", dependencies=[NEEDS_TOKEN], responses=under_way)
    async def discard(group: Group = None) -> DiscardedByGroup:
        """Throw the dead letters away for good."""
        gone = {}
        chosen = _chosen(service, group)
        for name, pipeline in chosen.items():
            if pipeline.letters.retried.running:
                raise ApiError(409, f"dead letters of group {name!r} are being retried", "try again when that is done")
        with _errors_answered():
            for name, pipeline in chosen.items():
                amount = await pipeline.letters.discard()
                gone[name] = Discarded(letters=amount.blocks, triggers=amount.triggers, readings=amount.readings)
        return DiscardedByGroup(gone)

    return routes


async def _announced(service: ApiService, epoch: int) -> RunsAnnounced:
    if len(service.intakes) < len(service.groups):
        raise ApiError(503, "the daemon is starting", "try again in a moment")
    _refuse_ended(service, epoch)
    try:
        return RunsAnnounced(await service.announce_run(epoch))
    except OSError as error:
        fix = fix_of(error, "see that the daemon may write to its state folder, and that its disk has room")
        detail = f"nothing is announced, since it cannot be written to the state folder: {reason_of(error)}"
        raise ApiError(500, detail, fix) from None


def _refuse_ended(service: ApiService, epoch: int) -> None:
    for name, pipeline in service.pipelines.items():
        run = pipeline.ended(epoch)
        if run is not None:
            fix = "announce the epoch that the timing system has now, or leave it out where nobody knows it"
            raise ApiError(409, f"epoch {epoch} is over in group {name!r}: it was run {run}", fix, field="epoch")


def _retried(pipelines: Mapping[str, Pipeline]) -> RetriedByGroup:
    return RetriedByGroup({name: Retried(**asdict(each.letters.retried)) for name, each in pipelines.items()})


@contextlib.contextmanager
def _errors_answered() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        fix = "see that the daemon may read and write its state folder, and that its disk has room"
        raise ApiError(500, f"the dead letters cannot be used: {error}", fix) from None


def _chosen(service: ApiService, group: str | None) -> Mapping[str, Pipeline]:
    if not service.pipelines:
        raise starting()
    if group is None:
        return service.pipelines
    if group not in service.pipelines:
        fix = f"name one of {', '.join(service.pipelines)}"
        raise ApiError(404, f"there is no group {group!r}", fix, field="group")
    return {group: service.pipelines[group]}


class OrderLog:
    """Has the events that an order causes name where it came from; an order that causes none becomes an event itself.

    What was refused was not done, and is no event.

    data: paths of what only adds data, and as often as data comes.
    """

    def __init__(self, app: ASGIApp, *, events: Events, data: Collection[str] = ()) -> None:
        self._app = app
        self._events = events
        self._data = data

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on."""
        if scope["type"] != "http" or scope["method"] in READING or scope["path"] in self._data:
            await self._app(scope, receive, send)
            return
        with self._events.ordered(origin_of(scope)) as order:

            async def answer(message: Message) -> None:
                if message["type"] == "http.response.start" and message["status"] < 400 and not order.is_recorded:
                    self._events.info(f"order carried out: {_request(scope)}")
                await send(message)

            await self._app(scope, receive, answer)


def origin_of(scope: Scope) -> str:
    """The address that an order came from, and the one for which a page or a proxy says that it passed it on."""
    client = client_of(scope)
    with suppress(ValueError):
        before = str(ip_address((header(scope, b"x-forwarded-for") or "").split(",")[-1].strip()))
        return client if before == client else f"{before} by way of {client}"
    return client


def _request(scope: Scope) -> str:
    query = scope["query_string"].decode("latin-1")
    return f"{scope['method']} {scope['path']}{'?' * bool(query)}{query}"

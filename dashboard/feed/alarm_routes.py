"""What people say of alarms: told to the page alone, and by it to all browsers; nothing of the daemon changes."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field

from daemon.web.origin import is_from
from dashboard.alarms.board import SHELVED_MOST_MIN
from dashboard.feed.hub import Hub


class Said(BaseModel):
    """Of which alarm."""

    model_config = ConfigDict(extra="forbid")
    key: Annotated[str, Field(max_length=100)]


class Shelved(Said):
    """Of which alarm, and for how long."""

    minutes: Annotated[float, Field(gt=0, le=SHELVED_MOST_MIN)]


def alarm_routes(hub: Hub, origins: frozenset[str]) -> APIRouter:
    """`POST /alarms/...`, for pages of this host and of `origins` alone."""
    routes = APIRouter(prefix="/alarms")

    @routes.post("/acknowledge", status_code=204)
    async def acknowledge(said: Said, request: Request) -> None:
        _check(request, origins)
        _say(hub, lambda: hub.board.acknowledge(said.key), said.key)

    @routes.post("/shelve", status_code=204)
    async def shelve(said: Shelved, request: Request) -> None:
        _check(request, origins)
        _say(hub, lambda: hub.board.shelve(said.key, said.minutes), said.key)

    @routes.post("/recall", status_code=204)
    async def recall(said: Said, request: Request) -> None:
        _check(request, origins)
        _say(hub, lambda: hub.board.recall(said.key), said.key)

    return routes


def _check(request: Request, origins: frozenset[str]) -> None:
    if not is_from(request.headers.get("origin"), request.headers.get("host"), origins):
        raise HTTPException(403, "a page of another host may not speak for this one's people")


def _say(hub: Hub, say: Callable[[], None], key: str) -> None:
    try:
        say()
    except KeyError:
        raise HTTPException(404, f"the alarm {key!r} is not in force any more") from None
    hub.tell_alarms()

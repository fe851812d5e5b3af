"""Routes for what people do about alarms: the page keeps it on disk, for all browsers; the daemon is not changed."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from daemon.web.errors import ApiError
from daemon.web.origin import is_own_page
from dashboard.alarms import MemoryFile
from dashboard.alarms.board import SHELVED_MOST_MIN
from dashboard.feed.hub import Hub


class AlarmKey(BaseModel):
    """Which alarm."""

    model_config = ConfigDict(extra="forbid")
    key: Annotated[str, Field(max_length=100)]


class Shelving(AlarmKey):
    """Which alarm, and for how long."""

    minutes: Annotated[float, Field(gt=0, le=SHELVED_MOST_MIN)]


def alarm_routes(hub: Hub, origins: frozenset[str], kept: MemoryFile) -> APIRouter:
    """`POST /alarms/...`, for pages of this host and port and of `origins` alone."""
    routes = APIRouter(prefix="/alarms")

    @routes.post("/acknowledge", status_code=204)
    async def acknowledge(alarm: AlarmKey, request: Request) -> None:
        _check(request, origins)
        await _apply(hub, kept, lambda: hub.board.acknowledge(alarm.key), alarm.key)

    @routes.post("/shelve", status_code=204)
    async def shelve(alarm: Shelving, request: Request) -> None:
        _check(request, origins)
        await _apply(hub, kept, lambda: hub.board.shelve(alarm.key, alarm.minutes), alarm.key)

    @routes.post("/recall", status_code=204)
    async def recall(alarm: AlarmKey, request: Request) -> None:
        _check(request, origins)
        await _apply(hub, kept, lambda: hub.board.recall(alarm.key), alarm.key)

    return routes


def _check(request: Request, origins: frozenset[str]) -> None:
    if not is_own_page(request.scope, origins):
        raise ApiError(403, "a page of another origin may not change alarms")


async def _apply(hub: Hub, kept: MemoryFile, change: Callable[[], None], key: str) -> None:
    try:
        change()
    except KeyError:
        raise ApiError(404, f"the alarm {key!r} is not in force any more") from None
    hub.publish_alarms()
    await kept.save(hub.board.memory())

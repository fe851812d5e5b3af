"""Routes for what people do about alarms: the page keeps it on disk, for all browsers; the daemon is not changed."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from daemon.web.errors import ApiError
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


def alarm_routes(hub: Hub, kept: MemoryFile) -> APIRouter:
    """`POST /alarms/...`; `OwnPages` lets nobody else in."""
    routes = APIRouter(prefix="/alarms")

    @routes.post("/acknowledge", status_code=204)
    async def acknowledge(alarm: AlarmKey) -> None:
        await _apply(hub, kept, lambda: hub.board.acknowledge(alarm.key), alarm.key)

    @routes.post("/shelve", status_code=204)
    async def shelve(alarm: Shelving) -> None:
        await _apply(hub, kept, lambda: hub.board.shelve(alarm.key, alarm.minutes), alarm.key)

    @routes.post("/recall", status_code=204)
    async def recall(alarm: AlarmKey) -> None:
        await _apply(hub, kept, lambda: hub.board.recall(alarm.key), alarm.key)

    return routes


async def _apply(hub: Hub, kept: MemoryFile, change: Callable[[], None], key: str) -> None:
    try:
        change()
    except KeyError:
        raise ApiError(404, f"the alarm {key!r} is not in force any more") from None
    hub.publish_alarms()
    await kept.save(hub.board.memory())

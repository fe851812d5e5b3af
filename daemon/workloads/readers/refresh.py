"""What questions are drawn from is refreshed in the background, and not as a part of them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sized
from typing import Generic, TypeVar

T = TypeVar("T", bound=Sized)


class BackgroundRefresh(Generic[T]):
    """A value as it was found `old_s` ago or less; `nothing` before the first time, and while nothing is stored.

    To find it is no part of a client's question, so a task does it once for all clients. A client waits for it only
    while there is no value.
    """

    def __init__(self, find: Callable[[], Awaitable[T]], nothing: T, old_s: float) -> None:
        self._find = find
        self._value = nothing
        self._old_s = old_s
        self._at_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def now(self) -> T:
        """The value, of length 0 where nothing is stored.

        Raises:
            StoreError: as `find`.
        """
        is_old = time.monotonic() - self._at_s > self._old_s
        if self._task is None and (is_old or not len(self._value)):
            self._task = asyncio.create_task(self._refresh())
            self._task.add_done_callback(self._refreshed)
        if self._task is not None and not len(self._value):
            await asyncio.shield(self._task)
        return self._value

    async def _refresh(self) -> None:
        self._value, self._at_s = await self._find(), time.monotonic()

    def _refreshed(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            # A client that waited got the error; the others meet it with their own question.
            task.exception()

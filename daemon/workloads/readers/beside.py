"""What questions are drawn from is looked for beside them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sized
from typing import Generic, TypeVar

T = TypeVar("T", bound=Sized)


class Beside(Generic[T]):
    """What a look found, as it was `old_s` ago or less; before the first look, and where nothing is stored, `nothing`.

    Looking is no part of a client's question, so it goes on beside these, once for all clients; nobody waits for it but
    the first, and who asks while nothing is stored.
    """

    def __init__(self, look: Callable[[], Awaitable[T]], nothing: T, old_s: float) -> None:
        self._find = look
        self._found = nothing
        self._old_s = old_s
        self._found_s = 0.0
        self._looking: asyncio.Task[None] | None = None

    async def now(self) -> T:
        """What is there, of length 0 where nothing is stored.

        Raises:
            StoreError: as the look.
        """
        is_old = time.monotonic() - self._found_s > self._old_s
        if self._looking is None and (is_old or not len(self._found)):
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(self._looked)
        if self._looking is not None and not len(self._found):
            await asyncio.shield(self._looking)
        return self._found

    async def _look(self) -> None:
        self._found, self._found_s = await self._find(), time.monotonic()

    def _looked(self, looking: asyncio.Task[None]) -> None:
        self._looking = None
        if not looking.cancelled():
            # Whoever waited has been told; who did not wait finds out by the own question.
            looking.exception()

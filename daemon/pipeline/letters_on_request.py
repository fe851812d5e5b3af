"""What operators do with the dead letters of a group: these are retried, or discarded."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from backends.base import Store, StoreError
from backends.ending import end_tasks
from daemon.core.supervision.fail_stop import fail_stop
from daemon.pipeline.announcements import Announcements
from daemon.pipeline.dead_letters import DeadLetters, Outcome, Retrying
from daemon.pipeline.files import Amount
from schemas.readings import InstrumentGroup
from schemas.retention import Period, are_within, spans_of


class LettersOnRequest:
    """Offers the dead letters of one group to the store, also in the background, and says what became of them.

    writing: see `Retrying`. lost: told of readings of earlier retries that the database has lost.
    """

    def __init__(
        self,
        store: Store,
        group: InstrumentGroup,
        dead_letters: DeadLetters,
        writing: asyncio.Lock,
        announcements: Announcements,
        *,
        lost: Callable[[int], None],
    ) -> None:
        self._name = group.name
        self._dead_letters = dead_letters

        def tell_lost(readings: int) -> None:
            lost(readings)
            announcements.letters_lost(readings)

        self._retrying = Retrying(store, group, dead_letters, writing, tell_lost)
        self._announcements = announcements
        self._retry: asyncio.Task[Outcome] | None = None

    @property
    def readings(self) -> int:
        """Readings that were committed from them since the start."""
        return self._retrying.readings

    @fail_stop(StoreError, OSError)
    async def retry(self) -> Outcome:
        """Offer them to the store again.

        Raises:
            StoreError: the store went away.
            OSError: the disk failed.
        """
        try:
            return await self._retrying.round()
        finally:
            self._announcements.retried(self._retrying.outcome)

    @fail_stop()
    def begin_retry(self) -> None:
        """Offer them to the store again in the background, unless that is under way."""
        if self._retry is None or self._retry.done():
            self._retrying.announce()
            self._retry = asyncio.create_task(self.retry(), name=f"retry {self._name}")
            self._retry.add_done_callback(_note_error)

    @property
    def retried(self) -> Outcome:
        """What became of those that `begin_retry` offers, up to now."""
        return self._retrying.outcome

    @fail_stop(OSError)
    async def discard(self) -> Amount:
        """Throw them away; raises OSError."""
        amount = await self._retrying.discard()
        self._announcements.discarded(amount)
        return amount

    async def are_of(self, periods: Sequence[Period]) -> list[bool]:
        """Which periods those are of that may still be committed; raises OSError."""
        times = await self._dead_letters.times()
        return [bool(are_within(spans_of([period]), times).any()) for period in periods]

    async def end(self) -> None:
        """End the retry that is under way, and note what is not noted yet."""
        if self._retry is not None:
            await end_tasks(self._retry)
        with contextlib.suppress(OSError):  # it is found out at the next start, or another time
            await self._dead_letters.note()


@fail_stop()
def _note_error(retry: asyncio.Task[Outcome]) -> None:
    """Take the error that a retry ended with: its outcome says it."""
    if not retry.cancelled():
        retry.exception()

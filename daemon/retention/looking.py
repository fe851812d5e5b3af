"""Work on whole periods beside the writing: somebody looks now and then, and acts on one at a time.

Where a table is in use, others may wait behind who wants it alone for a moment; it is given up then, and tried again
after a pause, with a little more patience each time: who reads without an end is waited for until somebody acts.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from backends.base import StoreBusy, StoreError
from daemon.core.monitoring.events import Events
from daemon.core.outcome import reason_of
from daemon.core.outside import Clock, Outside
from daemon.web.rates import Backoff
from schemas.retention import Period

EVERY_S = 60.0
"""Time between two looks, where the configuration does not say it."""
PATIENCE_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""How long readers and the writing may wait behind it, by how often it was tried."""
AGAIN_FIRST_S, AGAIN_MOST_S = 0.5, 10.0
TRIES = 60
"""So often it is tried before it is looked again what has to be done."""
SPREAD = 0.1
"""Several daemons at one database do not look at the same moment."""

NAMED = 3
"""So many of the periods that are held are named in the status."""

TOUCHED_FIRST_NS, TOUCHED_MOST_NS = 600_000_000_000, 86_400_000_000_000
"""A period that readings came for while it was dealt with is left alone for so long, twice as long each time."""

A = TypeVar("A")


async def patiently(act: Callable[[float], Awaitable[A]], otherwise: str) -> A:
    """Act, and again after a pause while others are in the way; act gets how long they may wait behind it, in s.

    otherwise: what to say where they always are, before what it was in the end.

    Raises:
        StoreBusy: they always are.
    """
    pauses, last = Backoff(AGAIN_FIRST_S, AGAIN_MOST_S), ""
    for attempt in range(TRIES):
        try:
            return await act(PATIENCE_S[min(attempt, len(PATIENCE_S) - 1)])
        except StoreBusy as error:
            last = str(error)
            await pauses.pause()
    raise StoreBusy(f"{otherwise}: {last}")


class LeftAlone:
    """Periods that readings came for while they were dealt with: each is left alone, twice as long each time.

    clock: what it says of the time of day may be wrong, and is not used.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[tuple[str, str], tuple[int, int]] = {}

    def add(self, period: Period) -> None:
        """Leave a period alone from now on."""
        _, times = self._until.get(period.label, (0, 0))
        pause_ns = min(TOUCHED_FIRST_NS * 2**times, TOUCHED_MOST_NS)
        self._until[period.label] = self._clock.now().monotonic_ns + pause_ns, times + 1

    def forget(self, period: Period) -> None:
        """It was dealt with."""
        self._until.pop(period.label, None)

    def names(self, group: str) -> list[str]:
        """Names of a group's periods that are left alone now."""
        now_ns = self._clock.now().monotonic_ns
        return [name for (of, name), (until_ns, _) in self._until.items() if of == group and now_ns < until_ns]


class Looking(ABC):
    """Looks now and then, and says once why nothing can be done.

    cannot: what cannot be done then, in words that a reason follows.
    """

    def __init__(self, outside: Outside, events: Events, cannot: str) -> None:
        self._outside = outside
        self._events = events
        self._cannot = cannot
        self._problem: str | None = None
        self._checked_ns: int | None = None
        self._changed = asyncio.Event()

    @property
    def every_s(self) -> float:
        """Time from one look to the next, in s."""
        return EVERY_S

    @property
    def is_asked_for(self) -> bool:
        """True where the configuration asks for it; where it does not, it is tried once, and failing is no problem."""
        return True

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            self._changed.clear()
            await self.look()
            every_s = self.every_s if self._problem is None else min(self.every_s, AGAIN_MOST_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(every_s * random.uniform(1 - SPREAD, 1 + SPREAD)):  # noqa: S311 - no secret
                    await self._changed.wait()

    def look_now(self) -> None:
        """Do not wait for the next look: what has to be done is something else now."""
        self._changed.set()

    async def look(self) -> None:
        """Look what has to be done now, and do it."""
        try:
            problem = await self._look()
        except StoreError as error:
            problem = str(error)
        except OSError as error:
            problem = f"dead letters cannot be read: {reason_of(error)}"
        self._note_problem(problem if self.is_asked_for else None)
        self._checked_ns = self._now_ns()

    @abstractmethod
    async def _look(self) -> str | None:
        """Do all that has to be done now; return why it could not be done, in one line.

        Raises:
            StoreError: the database does not answer.
            OSError: dead letters cannot be read.
        """

    def _now_ns(self) -> int:
        return self._outside.clock.now().utc_ns

    def _note_problem(self, problem: str | None) -> None:
        if problem is not None and problem != self._problem:
            self._events.warning(f"{self._cannot}: {problem}")
        self._problem = problem

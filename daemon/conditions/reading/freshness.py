"""Whether what is in memory is still true: the database is asked for the revisions of all tags, now and then.

An answer given at a time t is true for some moment after t - OLDEST_S, or after its question came: the revisions that
it was checked against were asked for after that, and after everything that the processes of this server had changed.
The latter holds for a question that had to wait. It waits for two questions to the database at most, however slow that
is, and however often something changes meanwhile. While nothing is asked, the database is not asked either.
"""

import asyncio
import mmap
from collections.abc import Awaitable, Callable, Sequence

from backends.base import StoreError, StoreUnavailable
from schemas.conditions.intervals import TagRevision

EVERY_S = 0.5
"""Revisions that are older are asked for again, beside the answers."""

OLDEST_S = 1.0
"""Revisions that are older prove nothing: the answer waits for newer ones."""

GIVE_UP_S = 2.0
"""The database is away when it does not tell its revisions within this time."""

Revisions = dict[str, TagRevision]


class Writes:
    """Times at which each process of the server last changed something, by a clock that they share.

    Args:
        memory: eight bytes for each process, which all of them have mapped.
        number: of this process.
    """

    def __init__(self, memory: mmap.mmap, number: int = 0) -> None:
        self._times = memoryview(memory).cast("d")
        self._number = number

    def note(self, now_s: float) -> None:
        """Note a change by this process."""
        self._times[self._number] = now_s

    @property
    def last_s(self) -> float:
        """The last of them; 0 where there is none yet."""
        return max(self._times)


class Freshness:
    """The revisions of all tags, by name.

    Args:
        ask: the database for the revisions.
        changed: called with new ones when they have come.
        clock: seconds that only grow.
        writes: revisions that were asked for before the last of them lack what it changed.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[Sequence[TagRevision]]],
        changed: Callable[[Revisions], None],
        clock: Callable[[], float],
        writes: Writes,
    ) -> None:
        self._ask, self._changed, self._clock, self._writes = ask, changed, clock, writes
        self._found: Revisions = {}
        self._asked = float("-inf")  # when the question was asked that `_found` answers
        self._failed = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self.problem: str | None = None

    @property
    def age_s(self) -> float:
        """How old the revisions are; infinite where they are known to lack something."""
        return float("inf") if self._asked < self._writes.last_s else self._clock() - self._asked

    def now(self) -> Revisions | None:
        """The revisions, if they are new enough; where they soon will not be they are asked for again, beside this."""
        age_s = self.age_s
        if age_s > EVERY_S:
            self.refresh()
        return self._found if age_s <= OLDEST_S else None

    async def fresh(self) -> Revisions:
        """The revisions, new enough.

        Raises:
            StoreUnavailable: the database does not tell them.
        """
        came = self._clock()
        while (found := self.now()) is None and self._asked < came:
            if self._asking is None:  # it has just failed
                raise StoreUnavailable(self.problem or "the database does not answer")
            # Several wait for the same answer, and one of them may be gone before it comes.
            await asyncio.shield(self._asking)
        return self._found if found is None else found

    def wrote(self) -> None:
        """Take note that this process has changed something: only revisions that are asked for from now on have it."""
        self._writes.note(self._clock())

    def refresh(self) -> None:
        """Ask for the revisions, unless that is under way, or failed lately and nothing was changed since."""
        is_new = self._clock() - self._failed >= EVERY_S or self._failed < self._writes.last_s
        if self._asking is None and is_new:
            self._asking = asyncio.create_task(self._ask_now())

    async def _ask_now(self) -> None:
        began = self._clock()
        try:
            async with asyncio.timeout(GIVE_UP_S):
                found = await self._ask()
        except TimeoutError:
            self._fail(f"the database has not answered within {GIVE_UP_S:g} s")
        except StoreError as error:
            self._fail(str(error))
        else:
            self._found, self._asked, self.problem = {each.name: each for each in found}, began, None
            self._changed(self._found)
        finally:
            self._asking = None

    def _fail(self, problem: str) -> None:
        self._failed, self.problem = self._clock(), problem

"""The backlog of one group: what is closed and not yet committed, in memory.

Where a log is kept, it may forget what it has no room for: from the first block that does not fit on it takes nothing
more, hands out what it has, and then the pipeline begins again with what the log holds. Where none is kept, sources are
held back.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from backends.columns.filling import readings_in
from daemon.core.outside import Clock
from daemon.core.supervision.fail_stop import fail_stop
from daemon.pipeline.closed_blocks import times_in
from daemon.pipeline.durable_state import DurableState
from daemon.pipeline.files import Amount
from daemon.pipeline.placing import Placed
from schemas.batch import ClosedBlock
from schemas.readings import Array
from schemas.retention import Period, are_within, spans_of


@dataclass(frozen=True, slots=True)
class Waiting:
    """A block in memory.

    state: sessions and runs as they are after it. put_ns: when it closed (monotonic); None where its readings were read
    from the log. placed: what of it went where the database says, since it was taken. told: ledger rows of earlier
    triggers, which the database may lack: what they count is true of those that it has.
    """

    number: int
    block: ClosedBlock
    state: DurableState
    nbytes: int
    readings: int
    put_ns: int | None
    placed: Placed | None = None
    told: Array | None = None


RESUME_AT = 0.5
"""Backpressure ends when the memory in use has fallen to this part of its limit; at the limit it would flutter."""


class Backlog:
    """Numbers blocks, keeps them, and hands them out in order.

    Args:
        after: the first block has the next number.
        state: sessions and runs as the database has them.
        clock: tells when blocks were put.
        max_memory: bytes that may wait.
        has_log: whether what does not fit may be forgotten. That begins with `forget_what_does_not_fit`.
        full: called with True when nothing more should come in, and with False when there is room again.

    put_bytes: what all that was put took. is_behind: whether something was forgotten.
    """

    def __init__(
        self,
        *,
        after: int,
        state: DurableState,
        clock: Clock,
        max_memory: int,
        has_log: bool,
        full: Callable[[bool], None],
    ) -> None:
        self.memory_bytes = 0
        self.put_bytes = 0
        self.is_full = self.is_behind = False
        self.last = self.safe_upto = self._after = after
        self._newest_state = state
        self._max_memory = max_memory
        self._has_log, self._forgets = has_log, False
        self._clock = clock
        self._full = full
        self._memory: deque[Waiting] = deque()
        self._in_memory, self._forgotten = Amount(), Amount()
        self._arrived = asyncio.Event()
        self._is_ended = False
        self._hold_s = 0.0
        self._held: deque[tuple[int, float]] = deque()  # number, and when the database acknowledged it (monotonic, s)
        self._after_s = clock.now().monotonic_ns / 1e9

    @property
    def waiting(self) -> Amount:
        """All that waits, in memory or in the log alone."""
        return self._in_memory.plus(self._forgotten)

    def waits_for(self, period: Period) -> bool:
        """Tell whether something that waits is of a period, or may be."""
        if self.is_behind:
            return True
        spans = spans_of([period])
        return any(are_within(spans, times).any() for each in self._memory for times in times_in(each.block))

    @property
    def room_bytes(self) -> int:
        """Return what is free of the memory in which blocks wait."""
        return self._max_memory - self.memory_bytes

    @property
    def has_work(self) -> bool:
        """Tell whether the committer has something to take."""
        return self.memory_bytes > 0

    def has_settled(self, number: int) -> bool:
        """Tell whether the blocks up to this number are dealt with, or forgotten."""
        return not self._memory or self._memory[0].number > number

    def change_limit(self, max_memory: int) -> None:
        """Let so many bytes wait in memory from now on."""
        self._max_memory = max_memory
        self._look()

    def forget_what_does_not_fit(self) -> None:
        """Take nothing more from the first block on for which there is no room: the log has it."""
        self._forgets = self._has_log

    def put(self, blocks: Sequence[ClosedBlock], *, is_fresh: bool = True) -> None:
        """Take blocks in. Never refuses: what is closed is not lost; `full` slows down the sources.

        is_fresh: their readings came just now.
        """
        put_ns = self._clock.now().monotonic_ns if is_fresh else None
        for block in blocks:
            self.last += 1
            nbytes, readings = block.nbytes, readings_in(block)
            self.put_bytes += nbytes
            self.is_behind = self.is_behind or (self._forgets and self.memory_bytes >= self._max_memory)
            if self.is_behind:
                self._forgotten.change(block.triggers, readings, 1)
                continue
            self._newest_state = self._newest_state.after([block])
            self._memory.append(Waiting(self.last, block, self._newest_state, nbytes, readings, put_ns))
            self.memory_bytes += nbytes
            self._in_memory.change(block.triggers, readings, 1)
        if blocks:
            self._arrived.set()
            self._look()

    async def take(self, most_bytes: int) -> list[Waiting]:
        """The oldest blocks, about so many bytes of them and at least one; waits until there is any.

        Returns none once nothing is left after `end`, or of what was not forgotten.
        """
        while not self._memory:
            if self._is_ended or self.is_behind:
                return []
            self._arrived.clear()
            await self._arrived.wait()
        size = taken = 0
        for waiting in self._memory:
            size += waiting.nbytes
            if taken and size > most_bytes:
                break
            taken += 1
        return list(islice(self._memory, taken))

    def settle(self, count: int) -> None:
        """The oldest so many blocks are dealt with."""
        now_s = self._clock.now().monotonic_ns / 1e9
        for _ in range(count):
            waiting = self._memory.popleft()
            self.memory_bytes -= waiting.nbytes
            self._in_memory.change(-waiting.block.triggers, -waiting.readings, -1)
            self._held.append((waiting.number, now_s))
        # Time alone does not make safe what was acknowledged: the server may have crashed since. It has just shown
        # that it still has all before this commit.
        while self._held and self._held[0][1] + self._hold_s <= now_s:
            self.safe_upto = self._held.popleft()[0]
        self._look()

    def hold_for(self, seconds: float) -> None:
        """Return how long the database may lose again what it acknowledged; without limit nothing is held, as with 0.

        What it had before the first block may have been acknowledged a moment ago.
        """
        self._hold_s = 0.0 if math.isinf(seconds) else seconds
        if self._hold_s and self.safe_upto == self._after:
            self._held.appendleft((self._after, self._after_s))
            self.safe_upto -= 1

    def end(self) -> None:
        """Nothing more will be put."""
        self._is_ended = True
        self._arrived.set()

    @fail_stop()
    def _look(self) -> None:
        limit = self._max_memory * (RESUME_AT if self.is_full else 1.0)
        is_full = self.memory_bytes >= limit and self.memory_bytes > 0
        if is_full != self.is_full:
            self.is_full = is_full
            self._full(is_full)

"""The backlog of one group: what is closed and not yet committed.

All of it goes to the journal, which is the backlog's own; the oldest part of it is in memory, too, where the committer
takes it from. While the database keeps up that is everything. When memory has its share, what closes is in the journal
alone, and is read back, oldest first, as the committer makes room.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import islice

from backends.columns.filling import readings_in
from daemon.core.outside import Clock
from daemon.core.supervision.fail_stop import fail_stop
from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.announcements import Announcements
from daemon.pipeline.backlog.held import HeldBlocks
from daemon.pipeline.backlog.waiting import Waiting
from daemon.pipeline.closed_blocks import times_in
from daemon.pipeline.durable_state import DurableState, States
from daemon.pipeline.journal import Acknowledged, Amount, Journal
from daemon.pipeline.journal.keeper import JournalKeeper, JournalState
from daemon.pipeline.journal.segment import NO_RECORDS
from schemas.batch import ClosedBlock, JournalPosition
from schemas.readings import Array
from schemas.retention import Period, are_within, spans_of

RESUME_AT = 0.5
"""Backpressure ends when the memory in use has fallen to this part of its limit; at the limit it would flutter."""

READ_AGAIN_S = 1.0

WRITTEN_S = 1.0
"""How long the end waits for a write of the journal's at least: it is overdue, and not given up."""


class Backlog:
    """Numbers blocks, keeps them, and hands them out in order.

    Args:
        journal: opened; closed with the backlog. None keeps everything in memory, as much as may be.
        recovered: what the journal held at the start and the database lacks, with numbers above `position`.
        revocable: what it held of what the database has, and may lose again; INDEX.
        position: up to which number the database has the blocks. state: sessions and runs as they are there.
        newest: the same as they are after all that the journal held. states: takes the states after each block, for the
            heads of its segments.
        full: called with True when nothing more should come in, and with False when there is room again.
        acknowledged: takes what the database acknowledged, for the next daemon in this state folder.
        spooled: called when the journal has written or synced more, with how many blocks are on the disk now: of those
            that closed in this process and are not settled, so many of the oldest.

    What the database has, and may lose again in a crash for some time, stays in the journal as long; see `hold_for`.
    lost: what the journal held and could not be read any more.
    """

    def __init__(
        self,
        journal: Journal | None,
        *,
        position: int,
        state: DurableState,
        newest: DurableState,
        states: States,
        clock: Clock,
        recovered: Amount,
        revocable: Array = NO_RECORDS,
        acknowledged: Acknowledged | None = None,
        max_memory: int,
        announcements: Announcements,
        full: Callable[[bool], None],
        spooled: Callable[[int], None],
    ) -> None:
        self._journal = None if journal is None else JournalKeeper(journal, self._on_journal, acknowledged)
        self._acknowledged = acknowledged
        self.memory_bytes = 0
        self.journal_bytes = 0 if self._journal is None else self._journal.state.nbytes
        self.put_bytes = 0
        self.lost = Amount()
        self._journal_room = 0 if self._journal is None else self._journal.state.room
        self.is_full = False
        self.problem: str | None = None if self._journal is None else self._journal.state.problem
        self._max_memory = max_memory
        self._announcements = announcements
        self._full = full
        self._spooled = spooled
        self._first = position + 1 if journal is None else journal.next
        self._last = self._first - 1
        self._loaded = position  # the blocks up to this number are, or were, in memory
        self._loaded_state = state
        self._newest_state = newest
        self._states = states
        self._clock = clock
        self._memory: deque[Waiting] = deque()
        self._in_memory = Amount()
        self._in_journal = replace(recovered)  # and not in memory
        self._arrived = asyncio.Event()
        self._is_ended = False
        self._refill: asyncio.Task[None] | None = None
        self._settled = position
        self._settled_here = 0  # blocks that closed in this process
        self._recovered_left = recovered.blocks
        self._again_upto = position  # what came again at the start has numbers up to here
        self._held = HeldBlocks(revocable, position, clock.now().monotonic_ns / 1e9)
        self._released = self.held_from - 1

    @property
    def first_here(self) -> int:
        """The number of the first block that closed in this process."""
        return self._first

    @property
    def last(self) -> int:
        """The number of the last block that was put."""
        return self._last

    @property
    def safe_upto(self) -> int:
        """The blocks up to this number are on the disk, or in the database where it cannot lose them."""
        return max(self._released, 0 if self._journal is None else self._journal.state.synced)

    @property
    def waiting(self) -> Amount:
        """All that waits, in memory or in the journal alone."""
        return Amount(
            blocks=self._in_memory.blocks + self._in_journal.blocks,
            triggers=self._in_memory.triggers + self._in_journal.triggers,
            readings=self._in_memory.readings + self._in_journal.readings,
        )

    def waits_for(self, period: Period) -> bool:
        """Whether something that waits is of a period, or may be.

        Blocks come in order: what is in the journal alone closed after what is in memory. What came late in it, or was
        set aside, and is of an older period, is found when it is committed.
        """
        if not self._memory:
            return self._in_journal.blocks > 0
        spans = spans_of([period])
        ledger = [waiting.block.ledger["time_ns"] for waiting in self._memory if waiting.block.triggers]
        oldest = min((int(times.min()) for times in ledger), default=None)
        if self._in_journal.blocks and (oldest is None or oldest < period.end_ns):
            return True
        return any(are_within(spans, times).any() for each in self._memory for times in times_in(each.block))

    @property
    def is_recovering(self) -> bool:
        """Whether the database lacks something that the journal held at the start."""
        return self._recovered_left > 0 or self._settled < self._again_upto

    @property
    def room_bytes(self) -> int:
        """What is free of the place where triggers wait: of the journal, or of memory where there is none."""
        if self._journal is None:
            return self._max_memory - self.memory_bytes
        return self._journal_room - self._journal.pending_bytes

    @property
    def has_work(self) -> bool:
        """Whether the committer has something to take, now or as soon as it is read back."""
        return self.memory_bytes > 0 or (self.waiting.blocks > 0 and self.problem is None)

    @property
    def has_journal(self) -> bool:
        """Whether blocks survive the end of this process."""
        return self._journal is not None

    def start(self) -> None:
        """Let the journal be written from now on."""
        if self._journal is not None:
            self._journal.start()

    def change_limits(self, *, max_memory: int, max_journal: int, segment: int) -> None:
        """Let so many bytes wait in memory, and in the journal, from now on; a segment of it has so many."""
        self._max_memory = max_memory
        if self._journal is not None:
            self._journal.change_limits(max_bytes=max_journal, segment_bytes=segment)
        self._look()

    def sync_at_once(self, wanted: bool) -> None:
        """Whether a sender waits for what is put to be on the disk."""
        if self._journal is not None:
            self._journal.sync_at_once(wanted)

    def parts(self, group: str) -> list[Part]:
        """What of it has to move, for the watchdog."""
        return [] if self._journal is None else [self._journal.part(f"the journal's keeper of group {group}")]

    def put(self, blocks: Sequence[ClosedBlock]) -> None:
        """Take blocks in. Never refuses: what is closed is not lost; `full` slows down the sources."""
        now_ns = self._clock.now().monotonic_ns
        states = []
        for number, block in enumerate(blocks, self._last + 1):
            self._newest_state = self._newest_state.after([block])
            self._states.note(number, self._newest_state)
            states.append(self._newest_state)
        if self._journal is not None and blocks:
            self._journal.put(blocks)
        for block, state in zip(blocks, states, strict=True):
            self._last += 1
            if self._in_journal.blocks or (self._journal is not None and self.memory_bytes >= self._max_memory):
                self._in_journal.change(block.triggers, readings_in(block), 1)
            else:
                self._remember(self._last, block, state, now_ns)
        if blocks:
            self.put_bytes += sum(block.nbytes for block in blocks)
            self._look()

    def drop_others(self) -> None:
        """Let the journal drop what is no history of it, once the database has all that was put by now."""
        if self._journal is not None and self._last >= self._first:
            self._again_upto = self._last
            self._journal.drop_others(self._last)

    async def take(self, most_bytes: int) -> list[Waiting]:
        """The oldest blocks, about so many bytes of them and at least one; waits until there is any.

        After `end` it returns none once nothing is left.
        """
        self._look()
        while not self._memory:
            if self._is_ended and not self._in_journal.blocks:
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

    def settle(self, count: int) -> int:
        """The oldest so many blocks in memory are dealt with; return how many of them closed in this process."""
        mine, now = 0, self._clock.now().monotonic_ns / 1e9
        for _ in range(count):
            waiting = self._memory.popleft()
            self.memory_bytes -= waiting.nbytes
            self._in_memory.change(-waiting.block.triggers, -waiting.readings, -1)
            # What is committed a second time was dealt with before, as far as its sender is concerned.
            is_new = waiting.number > self._settled
            mine += waiting.number >= self._first and is_new
            self._recovered_left -= waiting.number < self._first and is_new
            self._settled = max(self._settled, waiting.number)
            self._held.add(waiting, now)
        self._settled_here += mine
        self._release(now)
        self._look()
        return mine

    def note_acknowledged(self, position: JournalPosition) -> None:
        """The database acknowledged a commit at this position."""
        if self._acknowledged is not None:
            self._acknowledged.note(position)

    def hold_for(self, seconds: float) -> None:
        """How long the database may lose again what it acknowledged; see `HeldBlocks`."""
        self._held.hold_for(seconds)

    @property
    def came_back(self) -> Amount:
        """What the database had at the start, has lost since, and gets from the journal again."""
        return self._held.came_back

    @property
    def held_from(self) -> int:
        """The lowest number that can come again; one that was never handed out when there is none."""
        return self._held.oldest.number if self._held else self._settled + 1

    def rewind(self, position: int, state: DurableState) -> Amount:
        """The database is back at this position: hand out again what is held beyond it; return how much that is.

        state: sessions and runs as they are there. What was taken and is not settled yet is to be taken anew.
        """
        if self._journal is None:
            return Amount()
        if self._refill is not None:
            self._refill.cancel()
            self._refill = None
        back = self._held.take_back(position)
        for amount in (back, self._in_memory):
            self._in_journal.change(amount.triggers, amount.readings, amount.blocks)
        self._memory.clear()
        # What was let go of is in no count, though its segment may be there still.
        self.memory_bytes, self._in_memory, self._loaded = 0, Amount(), max(position, self._released)
        self._loaded_state = state
        self._look()
        return back

    def _release(self, now: float) -> None:
        """Let go of what is safe in the database, which has just shown that it still has all before this commit.

        Time alone does not make it safe: the server may have crashed since, and nobody has asked it.
        """
        last = self._held.release(math.inf if self._journal is None else now)
        if last is not None:
            self._released = last
        if last is not None and self._journal is not None:
            self._journal.trim(last)
            self._states.forget(last, in_database_of=self._journal.id)

    def end(self) -> None:
        """Nothing more will be put."""
        self._is_ended = True
        self._arrived.set()

    def _on_journal(self, state: JournalState) -> None:
        was_well = self.problem is None
        self.journal_bytes, self._journal_room, self.problem = state.nbytes, state.room, state.problem
        if (state.problem is None) != was_well:
            self._announcements.journal_problem(state.problem)
        self._states.forget(state.written)
        self._look()
        self._spooled(max(0, state.synced + 1 - self._first - self._settled_here))

    @property
    def is_held_here_alone(self) -> bool:
        """Whether something that the database acknowledged, and may lose, is in this process and not in the journal."""
        has_any = self._released < self._settled and self._journal is not None
        return has_any and self._journal is not None and self._journal.unwritten <= self._settled

    async def close(self, within_s: float, has: Callable[[int], Awaitable[bool]]) -> int:
        """Put what is not committed on the disk; what is held is left there for the next daemon to decide about.

        Where the disk does not take what is held, it is waited until the database cannot lose that any more, for
        within_s at most: nobody but this process has it. Returns how many readings it could lose all the same, or has
        lost.

        has: asks the database whether it has the blocks up to a number.

        Raises:
            OSError: the disk failed.
        """
        if self._refill is not None:
            self._refill.cancel()
            await asyncio.gather(self._refill, return_exceptions=True)
        try:
            if self._journal is None:
                return 0
            left = await self._write_held(self._journal, within_s, has)
            await self._journal.end()
            return left
        finally:
            if self._acknowledged is not None:
                await self._acknowledged.end()

    async def _write_held(self, journal: JournalKeeper, within_s: float, has: Callable[[int], Awaitable[bool]]) -> int:
        if not self.is_held_here_alone:
            return 0
        # What it has lost already waits again.
        has_all = bool(self._held) and self._held.newest == self._settled
        held_s = self._held.left_s(self._clock.now().monotonic_ns / 1e9) if has_all else math.inf
        await journal.write_upto(self._settled, min(max(held_s, WRITTEN_S), within_s))
        # Time alone does not make it safe, see `_release`.
        if self.is_held_here_alone and held_s <= within_s and await has(self._settled):
            return 0
        return journal.unwritten_readings(self._settled)

    def _remember(self, number: int, block: ClosedBlock, state: DurableState, put_ns: int | None) -> None:
        self._loaded_state = state
        waiting = Waiting(number, block, state, block.nbytes, readings_in(block), put_ns)
        self._memory.append(waiting)
        self._arrived.set()
        self._loaded = number
        self.memory_bytes += waiting.nbytes
        self._in_memory.change(block.triggers, waiting.readings, 1)

    @fail_stop()
    def _look(self) -> None:
        """See what has to be done, after any change."""
        wants_more = bool(self._in_journal.blocks) and self.memory_bytes <= RESUME_AT * self._max_memory
        if wants_more and self._journal is not None and (self._refill is None or self._refill.done()):
            self._refill = asyncio.get_running_loop().create_task(self._read_back(self._journal), name="read back")
        is_full = self._is_full_now()
        if is_full != self.is_full:
            self.is_full = is_full
            self._full(is_full)

    def _is_full_now(self) -> bool:
        limit = self._max_memory * (RESUME_AT if self.is_full else 1.0)
        is_memory_full = self.memory_bytes >= limit and self.memory_bytes > 0
        if self._journal is None:
            return is_memory_full
        # With the journal full, or slower than what comes in, that would have no place but memory.
        is_stuck = self.problem is not None and (is_memory_full or bool(self._in_journal.blocks))
        return is_stuck or self._journal.is_behind

    @fail_stop()
    async def _read_back(self, journal: JournalKeeper) -> None:
        upto = self._last
        try:
            found = await journal.read(self._loaded, int(RESUME_AT * self._max_memory))
        except OSError as error:
            self.problem = f"the journal cannot be read: {error}"
            asyncio.get_running_loop().call_later(READ_AGAIN_S, self._look)
            return
        self.problem = journal.state.problem  # it can be read
        for number, block in found:
            self._remember(number, block, self._loaded_state.after([block]), None)
            self._in_journal.change(-block.triggers, -self._memory[-1].readings, -1)
        if not found and self.problem is not None:
            # What is not written yet may be whole still.
            asyncio.get_running_loop().call_later(READ_AGAIN_S, self._look)
            return
        if not found:
            # All that was put before is written, and nothing of it could be read.
            self._loaded = max(self._loaded, upto)
        if self._loaded == self._last and self._in_journal.blocks:
            gone, self._in_journal = self._in_journal, Amount()
            self._recovered_left = 0
            self._arrived.set()
            self.lost.change(gone.triggers, gone.readings, gone.blocks)
            self._announcements.journal_unreadable(gone)
        self._refill = None
        self._look()

"""The journal's thread: it writes, syncs and reads, so that a slow disk does not hold up the event loop.

Waking a thread for every block would cost more than writing it, so blocks are written together: at once only where a
sender waits for `spooled`, else after a few milliseconds, in which a database that is well has taken most of them;
these are not written at all. What is written survives the end of the daemon; that it survives the end of the machine
costs a sync, done at once, too, only where a sender waits for it: the database syncs on the same disk as often as not.
"""

import asyncio
import itertools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.journal.journal import Journal, JournalFull
from schemas.batch import ClosedBlock

log = logging.getLogger(__name__)

Blocks = list[tuple[int, ClosedBlock]]

TOGETHER = 16 * 2**20
"""Bytes of blocks written as one; who reads or trims waits for no more than this."""

WRITE_WITHIN_S = 0.02
WRITE_FROM = 8 * 2**20
"""What nobody waits for is written after this time, or when so many bytes have gathered, if the database lacks it."""

UNWRITTEN_MOST = 64 * 2**20
"""Bytes that may wait in memory to be written before the disk counts as too slow."""

SYNC_WITHIN_S = 5.0
"""What nobody waits for is on the disk after this time all the same, unless the database has it by then."""

ROOM_EVERY_S = 5.0
"""Time between two looks at the free space of the disk, which others use as well."""

AGAIN_S = 1.0
"""After so long what failed is tried again: a full disk may have room by then."""


@dataclass(frozen=True, kw_only=True)
class JournalState:
    """How far the journal is, and what room it has.

    written, synced: all blocks up to these numbers survive the end of this process, and of this machine.
    nbytes, room: what the journal takes of the disk, and what more it may; the room is looked at every few seconds.
    problem: why no more are written, else None.
    """

    written: int
    synced: int
    nbytes: int
    room: int
    problem: str | None


class JournalThread:
    """Hands closed blocks to a journal in a thread of its own.

    changed: called on the event loop with every new state.
    """

    def __init__(self, journal: Journal, changed: Callable[[JournalState], None]) -> None:
        self._journal = journal
        self._report_change = changed
        self._loop = asyncio.get_running_loop()
        self._condition = threading.Condition()
        self._pending: deque[ClosedBlock] = deque()
        self._pending_bytes = 0
        self._reads: deque[tuple[int, int, Future[Blocks]]] = deque()
        self._trimmed = 0
        self._trim_to = 0
        self._is_ended = False
        self._again_at = math.inf
        self._doubtful = 0
        self._written = self._synced = 0
        self._sync_at = math.inf
        self._syncs_at_once = False
        self._next = journal.next  # number of the first that is pending
        self._is_write_due = self._is_writing = False
        self._room_at = time.monotonic()
        self._state = JournalState(written=0, synced=0, nbytes=journal.nbytes, room=journal.free_room(), problem=None)
        self._timer: asyncio.TimerHandle | None = None
        self._asked = self._answered = 0
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    @property
    def state(self) -> JournalState:
        """How far the journal is, as it was reported last."""
        return self._state

    @property
    def pending_bytes(self) -> int:
        """Bytes that are put and not yet written."""
        return self._pending_bytes

    @property
    def is_behind(self) -> bool:
        """Whether the disk cannot keep up with what is put."""
        return self._pending_bytes >= UNWRITTEN_MOST

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def change_limits(self, *, max_bytes: int, segment_bytes: int) -> None:
        """Let the journal hold so much from now on."""
        self._journal.change_limits(max_bytes=max_bytes, segment_bytes=segment_bytes)

    def part(self, name: str) -> Part:
        """How the thread does, for the watchdog; asks it for a sign of life, which the next look sees."""
        part = Part(name=name, steps=self._answered, is_busy=self._asked > self._answered)
        with self._condition:
            self._asked += 1
            self._condition.notify()
        return part

    def put(self, blocks: Sequence[ClosedBlock]) -> None:
        """Keep blocks; in the order in which they come they get the journal's next numbers."""
        with self._condition:
            self._pending.extend(blocks)
            self._pending_bytes += sum(block.nbytes for block in blocks)
            if self._syncs_at_once or self._pending_bytes >= WRITE_FROM:
                self._request_write()
        self._plan()

    def sync_at_once(self, wanted: bool) -> None:
        """Whether a sender waits for what is put to be on the disk."""
        with self._condition:
            self._syncs_at_once = wanted
            self._condition.notify()

    def trim(self, position: int) -> None:
        """The database has everything up to this number; what of it is not written yet needs no writing."""
        with self._condition:
            self._trim_to = position
            while self._pending and self._next <= position and not self._is_writing:
                self._take_first()
            if not self._pending and self._written <= self._trimmed:
                return
        self._plan()

    def _plan(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(WRITE_WITHIN_S, self._due)

    def _due(self) -> None:
        self._timer = None
        with self._condition:
            if self._pending or self._trim_to > self._trimmed:
                self._request_write()

    def _request_write(self) -> None:
        self._is_write_due = True
        self._condition.notify()

    def _take_first(self) -> None:
        self._pending_bytes -= self._pending.popleft().nbytes
        self._next += 1

    async def read(self, after: int, most_bytes: int) -> Blocks:
        """Read the first blocks with numbers above `after`, of those put before; see `Journal.read`.

        Those that a full disk does not take come from memory, when the journal has none before them.

        Raises:
            OSError: the disk failed.
        """
        future: Future[Blocks] = Future()
        with self._condition:
            self._reads.append((after, most_bytes, future))
            self._condition.notify()
        return await asyncio.wrap_future(future)

    async def end(self) -> None:
        """Write what was put, as far as there is room, sync it, and let go of the journal.

        Raises:
            OSError: the disk failed.
        """
        if self._timer is not None:
            self._timer.cancel()
        with self._condition:
            self._is_ended = True
            self._condition.notify()
        await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._journal.close)

    # --- in the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except Exception as error:
            # A defect; what is committed from memory goes on without a journal.
            log.exception("the journal's thread ended")
            self._problem(f"the journal's thread ended: {error}")

    def _step(self) -> bool:
        """Wait for something to do, and do it; return whether there is more to come."""
        with self._condition:
            self._condition.wait_for(self._has_work, self._idle_s())
            blocks, reads, first = list(self._pending), list(self._reads), self._next
            self._reads.clear()
            trim_to, is_ended, asked = self._trim_to, self._is_ended, self._asked
            self._is_write_due, self._is_writing = False, True
        problem = self._trim(trim_to)
        self._report(self._write(first, blocks) or self._sync() or problem)
        for after, most_bytes, future in reads:
            self._answer(future, after, most_bytes)
        self._answered = asked
        return not is_ended

    def _idle_s(self) -> float:
        until = min(self._sync_at, self._again_at, self._room_at + ROOM_EVERY_S)
        return max(0.0, until - time.monotonic())

    def _has_work(self) -> bool:
        is_time = time.monotonic() >= self._again_at or math.isinf(self._again_at)
        has_to_sync = self._syncs_at_once and max(self._synced, self._trimmed) < self._written
        return (is_time and (self._is_write_due or has_to_sync)) or self._is_asked()

    def _is_asked(self) -> bool:
        return bool(self._reads) or self._is_ended or self._asked > self._answered

    def _trim(self, position: int) -> str | None:
        self._trimmed = position
        try:
            self._journal.trim(position)
        except OSError as error:
            return f"a segment cannot be removed: {error}"
        return None

    def _write(self, first: int, blocks: Sequence[ClosedBlock]) -> str | None:
        # What the database has by now needs no writing.
        written = max(0, min(len(blocks), self._trimmed + 1 - first))
        try:
            while written < len(blocks):
                together = self._that_fit(blocks[written:])
                self._written = self._journal.append(together, first + written)
                written += len(together)
            self._again_at = math.inf
        except (JournalFull, OSError) as error:
            self._again_at = time.monotonic() + AGAIN_S
            return str(error)
        finally:
            with self._condition:
                for _ in range(written):
                    self._take_first()
                self._is_writing = False
            if written:
                self._sync_at = min(self._sync_at, time.monotonic() + SYNC_WITHIN_S)
        return None

    def _that_fit(self, blocks: Sequence[ClosedBlock]) -> Sequence[ClosedBlock]:
        """As many as there is room for, and at least one, which finds out whether there is any."""
        sizes = itertools.accumulate(block.nbytes for block in blocks)
        room = min(self._journal.room, TOGETHER)
        return blocks[: max(1, sum(1 for _ in itertools.takewhile(lambda size: size <= room, sizes)))]

    def _sync(self) -> str | None:
        if self._written <= max(self._synced, self._trimmed):
            self._sync_at = math.inf
        elif self._syncs_at_once or time.monotonic() >= self._sync_at:
            try:
                synced = self._journal.sync()
            except OSError as error:
                # The system may think now that it has been written: no later sync says anything of it.
                self._doubtful = self._written
                self._again_at = self._sync_at = time.monotonic() + AGAIN_S
                return f"the journal cannot be put on the disk: {error}"
            self._sync_at = math.inf
            if self._trimmed >= self._doubtful:
                self._synced = synced
        return None

    def _problem(self, problem: str) -> None:
        with self._condition:
            reads = list(self._reads)
            self._reads.clear()
        self._report(problem)
        for _, _, future in reads:
            future.set_exception(OSError(problem))

    def _report(self, problem: str | None) -> None:
        state = self._new_state(problem)
        if state != self._state:
            self._state = state
            self._loop.call_soon_threadsafe(self._report_change, state)

    def _new_state(self, problem: str | None) -> JournalState:
        nbytes = self._journal.nbytes
        if time.monotonic() - self._room_at >= ROOM_EVERY_S:
            room, self._room_at = self._journal.free_room(), time.monotonic()
        else:
            room = max(0, self._state.room + self._state.nbytes - nbytes)
        return JournalState(written=self._written, synced=self._synced, nbytes=nbytes, room=room, problem=problem)

    def _answer(self, future: "Future[Any]", after: int, most_bytes: int) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(self._journal.read(after, most_bytes) or self._unwritten(after, most_bytes))
        except OSError as error:
            future.set_exception(error)

    def _unwritten(self, after: int, most_bytes: int) -> Blocks:
        """The first blocks above `after` that wait to be written; their numbers are above all in the journal."""
        with self._condition:
            waiting = [(self._next + k, block) for k, block in enumerate(self._pending) if self._next + k > after]
        sizes = itertools.accumulate(block.nbytes for _, block in waiting)
        return waiting[: max(1, sum(1 for _ in itertools.takewhile(lambda size: size <= most_bytes, sizes)))]

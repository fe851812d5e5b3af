"""The journal's keeper: it writes, syncs and reads beside the event loop, so that a slow disk does not hold that up.

Waking it for every block would cost more than writing the block, so blocks are written together: at once only where a
sender waits for `spooled`, else after a few milliseconds, in which a database that is well has taken most of them;
these are not written at all. What is written survives the end of the daemon; that it survives the end of the machine
costs a sync, done at once, too, only where a sender waits for it: the database syncs on the same disk as often as not.

All that it does happens in `step`, which `Outside.workers` calls: in a thread of its own.
"""

import asyncio
import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any

from backends.columns.filling import readings_in
from daemon.core.supervision.fail_stop import fail_stop
from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.fitting import count_fitting
from daemon.pipeline.journal.acknowledged import Acknowledged
from daemon.pipeline.journal.beside import Attempt, Beside
from daemon.pipeline.journal.errors import JournalFull
from daemon.pipeline.journal.journal import Journal
from schemas.batch import ClosedBlock

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
"""Time between two looks at the free space of the disk, which others use as well, and two notes of what the database
acknowledged: each is synced."""


@dataclass(frozen=True, kw_only=True)
class JournalState:
    """How far the journal is, and what room it has.

    written, synced: all blocks up to these numbers survive the end of this process, and of this machine.
    nbytes, room: what the journal takes of the disk, and what more it may; the room is looked at every few seconds.
    problem: what failed and is tried again, else None.
    """

    written: int
    synced: int
    nbytes: int
    room: int
    problem: str | None


class JournalKeeper:
    """Hands closed blocks to a journal.

    journal: open. changed: called on the event loop with every new state. acknowledged: written every few seconds.
    """

    def __init__(
        self, journal: Journal, changed: Callable[[JournalState], None], acknowledged: Acknowledged | None = None
    ) -> None:
        self._journal = journal
        self._acknowledged = acknowledged
        self._clock = journal.outside.clock
        self._report_change = changed
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._beside = Beside(journal.outside.workers, "the journal's keeper", self.step)
        self._pending: deque[ClosedBlock] = deque()
        self._pending_bytes = 0
        self._reads: deque[tuple[int, int, Future[Blocks]]] = deque()
        self._trimmed = 0
        self._trim_to = 0
        self._drop_others_at: int | None = None
        self._is_ended = False
        self._writing, self._syncing, self._trimming = Attempt(), Attempt(), Attempt()
        self._written = self._synced = 0
        # What an earlier process left and may not be on the disk is to be there as soon as may be.
        self._sync_at = math.inf if journal.is_durable else -math.inf
        self._syncs_at_once = False
        self._next = journal.next  # number of the first that is pending
        self._is_write_due = self._is_writing = False
        self._room_at = self._now()
        self._syncing.problem = problem = None if journal.is_durable else "what it holds is not surely on the disk"
        self._state = JournalState(
            written=0, synced=0, nbytes=journal.nbytes, room=journal.free_room(), problem=problem
        )
        self._timer: asyncio.TimerHandle | None = None

    def _now(self) -> float:
        return self._clock.now().monotonic_ns / 1e9

    @property
    def id(self) -> int:
        """The id of the journal."""
        return self._journal.id

    @property
    def state(self) -> JournalState:
        """How far the journal is, as it was reported last."""
        return self._state

    @property
    def pending_bytes(self) -> int:
        """Bytes that are put and not yet written."""
        return self._pending_bytes

    @property
    def unwritten(self) -> int:
        """The number of the first block that is put and not yet written, or else of the next one."""
        return self._next

    def unwritten_readings(self, upto: int) -> int:
        """How many readings are in blocks with numbers up to this one that are not yet written."""
        with self._lock:
            return sum(readings_in(block) for block in islice(self._pending, max(0, upto + 1 - self._next)))

    @property
    def is_behind(self) -> bool:
        """Whether the disk cannot keep up with what is put."""
        return self._pending_bytes >= UNWRITTEN_MOST

    def start(self) -> None:
        """Let the steps begin."""
        self._beside.start()

    def change_limits(self, *, max_bytes: int, segment_bytes: int) -> None:
        """Let the journal hold so much from now on."""
        self._journal.change_limits(max_bytes=max_bytes, segment_bytes=segment_bytes)

    def part(self, name: str) -> Part:
        """How the steps go, for the watchdog."""
        return self._beside.part(name)

    def put(self, blocks: Sequence[ClosedBlock]) -> None:
        """Keep blocks; in the order in which they come they get the journal's next numbers."""
        with self._lock:
            self._pending.extend(blocks)
            self._pending_bytes += sum(block.nbytes for block in blocks)
            is_due = self._syncs_at_once or self._pending_bytes >= WRITE_FROM
        if is_due:
            self._request_write()
        self._plan()

    def sync_at_once(self, wanted: bool) -> None:
        """Whether a sender waits for what is put to be on the disk."""
        self._syncs_at_once = wanted
        self._beside.wake()

    def trim(self, position: int) -> None:
        """The database has everything up to this number; what of it is not written yet needs no writing."""
        with self._lock:
            self._trim_to = position
            while self._pending and self._next <= position and not self._is_writing:
                self._take_first()
            if not self._pending and self._written <= self._trimmed:
                return
        self._plan()

    def drop_others(self, number: int) -> None:
        """Let go of what is foreign, or behind a hole, once the database has everything up to this number."""
        self._drop_others_at = number

    def _plan(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(WRITE_WITHIN_S, self._due)

    @fail_stop()
    def _due(self) -> None:
        self._timer = None
        if self._pending or self._trim_to > self._trimmed:
            self._request_write()

    def _request_write(self) -> None:
        self._is_write_due = True
        self._beside.wake()

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
        with self._lock:
            self._reads.append((after, most_bytes, future))
        self._beside.wake()
        return await asyncio.wrap_future(future)

    async def write_upto(self, number: int, within_s: float) -> None:
        """Wait until all that was put up to this number is written, for so long where the disk does not take it."""
        self._request_write()
        until_s = self._now() + within_s
        while self._next <= number and self._now() < until_s:  # noqa: ASYNC110 - another thread writes
            await asyncio.sleep(WRITE_WITHIN_S)

    async def end(self) -> None:
        """Write what was put, as far as there is room, sync it, and let go of the journal.

        Raises:
            OSError: the disk failed.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._is_ended = True
        await self._beside.ended()
        await self._journal.outside.workers.call(self._journal.close)

    # --- beside the event loop ----------------------------------------------------------------------------------

    def step(self) -> float | None:
        """Do what is due; return after how many seconds the next step is due, None after the last."""
        now_s = self._now()
        if not self._is_due(now_s):
            return self._rest_s(now_s)
        with self._lock:
            blocks, reads, first = list(self._pending), list(self._reads), self._next
            self._reads.clear()
            trim_to, is_ended, asked = self._trim_to, self._is_ended, self._beside.asked
            self._is_write_due, self._is_writing = False, True
        self._trim(trim_to, now_s)
        self._write(first, blocks, now_s, is_last=is_ended)
        self._sync(now_s, is_last=is_ended)
        self._note_acknowledged(now_s)
        self._report()
        for after, most_bytes, future in reads:
            self._answer(future, after, most_bytes)
        self._beside.answer(asked)
        return None if is_ended else self._rest_s(self._now())

    def _is_due(self, now_s: float) -> bool:
        return self._rest_s(now_s) <= 0 or bool(self._reads) or self._is_ended or self._beside.is_asked

    def _rest_s(self, now_s: float) -> float:
        """How long nothing is due that comes by itself."""
        if self._is_write_due and self._trim_to > self._trimmed:
            return 0.0
        write_at = self._writing.not_before_s if self._is_write_due or self._writing.problem else math.inf
        has_to_sync = self._syncs_at_once and not self._journal.is_durable
        sync_at = max(-math.inf if has_to_sync else self._sync_at, self._syncing.not_before_s)
        return max(0.0, min(write_at, sync_at, self._room_at + ROOM_EVERY_S) - now_s)

    def _trim(self, position: int, now_s: float) -> None:
        self._trimmed, before = position, self._journal.nbytes
        try:
            self._journal.trim(position)
            if self._drop_others_at is not None and position >= self._drop_others_at:
                self._journal.drop_loose()
                self._journal.drop_foreign()
                self._drop_others_at = None
        except OSError as error:
            self._trimming.failed(f"a segment cannot be removed: {error}", now_s)
        else:
            self._trimming.succeeded()
        if self._journal.nbytes < before:
            # Where there was no room there may be some now.
            self._writing.not_before_s = -math.inf

    def _write(self, first: int, blocks: Sequence[ClosedBlock], now_s: float, *, is_last: bool) -> None:
        # What the database has by now needs no writing.
        written = max(0, min(len(blocks), self._trimmed + 1 - first))
        try:
            if now_s >= self._writing.not_before_s or is_last:
                while written < len(blocks):
                    together = self._that_fit(blocks[written:])
                    self._written = self._journal.append(together, first + written)
                    written += len(together)
                self._writing.succeeded()
        except (JournalFull, OSError) as error:
            self._writing.failed(str(error), now_s)
        finally:
            with self._lock:
                for _ in range(written):
                    self._take_first()
                self._is_writing = False
        if not self._journal.is_durable:
            self._sync_at = min(self._sync_at, now_s + SYNC_WITHIN_S)

    def _that_fit(self, blocks: Sequence[ClosedBlock]) -> Sequence[ClosedBlock]:
        """As many as there is room for, and at least one, which finds out whether there is any."""
        room = min(self._journal.room, TOGETHER)
        return blocks[: max(1, count_fitting((block.nbytes for block in blocks), room))]

    def _sync(self, now_s: float, *, is_last: bool) -> None:
        if self._journal.is_durable:
            self._sync_at = math.inf
            self._syncing.succeeded()
        elif is_last or (now_s >= self._syncing.not_before_s and (self._syncs_at_once or now_s >= self._sync_at)):
            try:
                self._synced = self._journal.sync()
            except OSError as error:
                self._syncing.failed(f"the journal cannot be put on the disk: {error}", now_s)
                self._sync_at = -math.inf
            else:
                self._sync_at = math.inf
                self._syncing.succeeded()

    def _note_acknowledged(self, now_s: float) -> None:
        if self._acknowledged is not None and now_s - self._room_at >= ROOM_EVERY_S:
            # The note that stays says less, and nothing that is not so.
            with contextlib.suppress(OSError):
                self._acknowledged.write()

    def _report(self) -> None:
        state = self._new_state(self._writing.problem or self._syncing.problem or self._trimming.problem)
        if state != self._state:
            self._state = state
            self._loop.call_soon_threadsafe(self._changed, state)

    @fail_stop()
    def _changed(self, state: JournalState) -> None:
        self._report_change(state)

    def _new_state(self, problem: str | None) -> JournalState:
        nbytes, now_s = self._journal.nbytes, self._now()
        if now_s - self._room_at >= ROOM_EVERY_S:
            room, self._room_at = self._journal.free_room(), now_s
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
        with self._lock:
            waiting = [(self._next + k, block) for k, block in enumerate(self._pending) if self._next + k > after]
        return waiting[: max(1, count_fitting((block.nbytes for _, block in waiting), most_bytes))]

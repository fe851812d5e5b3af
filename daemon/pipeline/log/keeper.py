"""The keeper of the log: it writes, syncs and reads beside the event loop.

Everything that comes is in memory until the database has it. It goes to the disk at once where a sender waits for that,
and else if it is still here after `LAZY_S`: while the database keeps up, next to nothing is written. What came while it
synced is written and synced together, so that a slow disk makes larger steps, not a longer queue. After a failure what
was not synced is appended again.
"""

import asyncio
import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar

from daemon.core.outcome import file_words, reason_of
from daemon.core.supervision.fail_stop import fail_stop
from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.files.acknowledged import Acknowledged
from daemon.pipeline.files.beside import Attempt, Beside
from daemon.pipeline.files.errors import LogFull
from daemon.pipeline.fitting import count_fitting
from daemon.pipeline.log.format import Received
from daemon.pipeline.log.log import Log
from schemas.batch import JournalPosition
from schemas.readings import Array

T = TypeVar("T")

TOGETHER = 8 * 2**20
"""Bytes written as one."""

WAITING_MOST = 64 * 2**20
"""Bytes that may wait in memory to be written before the disk counts as too slow."""

STUCK_MOST = 4 * 2**20
"""The same while the disk takes nothing."""

WRITTEN_FROM = 16 * 2**20
"""Bytes in memory from which on all is written, however young: the database is behind."""

ROOM_EVERY_S = 5.0
"""Time between two looks at the free space of the disk, which others use as well, and two notes of what the database
acknowledged: each is synced."""

LAZY_S = 0.2
"""Age at which readings are written that nobody waits for on the disk; at the latest at twice of it."""


@dataclass(frozen=True, kw_only=True)
class LogState:
    """How far the log is.

    synced: all records up to this number are on the disk. gone: those up to this number are not, any more.
    tried, skipped: those above `tried` never were; of these, those up to `skipped` never will be.
    nbytes: what the log takes of the disk. room: what it may still take, by its limit and by what is free.
    problem: what failed and is tried again, else None.
    """

    synced: int
    gone: int
    tried: int
    skipped: int
    nbytes: int
    room: int
    problem: str | None


class LogKeeper:
    """Hands readings to the log.

    log: open. changed: called on the event loop with every new state. trim_to: all records up to it are safe elsewhere.
    """

    def __init__(self, log: Log, changed: Callable[[LogState], None]) -> None:
        self._log = log
        self._clock = log.outside.clock
        self._report_change = changed
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._beside = Beside(log.outside.workers, "the journal's keeper", self.step)
        self.next = log.next
        self._wanted = self._seen = self._due = log.next - 1
        self._seen_s = self._now()
        self._sleeps = True  # nothing waits, and nobody asks
        self._waiting: deque[Received] = deque()  # those that are not synced, and those that are retained
        self._waiting_bytes = 0
        self._tried = self._synced = log.next - 1
        self._gone = self.trim_to = self._trimmed = self._skipped = 0
        self._retained_from: int | None = None
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._is_ended = False
        self._acknowledged = Acknowledged(log.folder, log.outside)
        self._room, self._room_at = log.free_room(), self._now()
        self._writing, self._trimming, self._reading = Attempt(), Attempt(), Attempt()
        self._state = self._new_state()

    def _now(self) -> float:
        return self._clock.now().monotonic_ns / 1e9

    @property
    def state(self) -> LogState:
        """How far it is, as it was reported last."""
        return self._state

    @property
    def is_full(self) -> bool:
        """Whether the disk cannot take what comes."""
        return self._waiting_bytes >= (WAITING_MOST if self._state.problem is None else STUCK_MOST)

    @property
    def first_waiting(self) -> int:
        """The number of the first record in memory: what came before can be read, and what comes after is there."""
        return self._waiting[0].number if self._waiting else self.next

    def start(self) -> None:
        """Let the steps begin."""
        self._beside.start()

    def change_limits(self, *, max_bytes: int, segment_bytes: int) -> None:
        """Let the log hold so much from now on."""
        self._log.change_limits(max_bytes=max_bytes, segment_bytes=segment_bytes)

    def part(self, name: str) -> Part:
        """How the steps go, for the watchdog."""
        return self._beside.part(name)

    def put(self, received_ns: int, runs: Array, readings: Array, *, at_once: bool) -> int:
        """Keep what came together, as in `Received`; return its number. at_once: somebody waits for it on the disk."""
        received = Received(number=self.next, received_ns=received_ns, runs=runs, readings=readings)
        self.next += 1
        with self._lock:
            self._waiting.append(received)
            self._waiting_bytes += received.nbytes
            wakes = at_once or self._sleeps
            self._sleeps = False
            if at_once:
                self._wanted = received.number
        if wakes:
            self._beside.wake()
        return received.number

    def trim(self, number: int) -> None:
        """All up to this number is safe elsewhere; what of it is not written yet needs no writing."""
        self.trim_to = max(self.trim_to, number)
        self._forget_synced()
        if self._synced > self._trimmed:  # something of it is on the disk
            self._beside.wake()

    def retain(self) -> None:
        """Leave in memory what comes from now on, until `release`."""
        self._retained_from = self.first_waiting

    def in_memory(self) -> list[Received]:
        """Return what is in memory, in order."""
        with self._lock:
            return list(self._waiting)

    def release(self) -> list[Received]:
        """What is in memory, in order; it is left there no longer than it takes to sync it."""
        waiting = self.in_memory()
        self._retained_from = None
        self._forget_synced()
        return waiting

    def note_acknowledged(self, position: JournalPosition) -> None:
        """The database acknowledged a commit at this position: the next start is to know."""
        self._acknowledged.note(position)

    async def read(self, most_bytes: int) -> list[Received]:
        """Read the next records; see `Log.read`.

        Raises:
            OSError: the disk failed.
        """
        try:
            found = await self._call(partial(self._log.read, most_bytes))
        except OSError as error:
            self._reading.failed(f"the journal cannot be read: {file_words(error)}", self._now())
            raise
        self._reading.succeeded()
        return found

    async def read_again(self) -> None:
        """Let `read` begin again with the first record that is not safe elsewhere."""
        self._retained_from = None
        await self._call(partial(self._log.read_again, after=self.trim_to))

    async def doubt(self) -> None:
        """See `Log.doubt`.

        Raises:
            OSError: the disk failed.
        """
        await self._call(self._log.doubt)

    async def _call(self, function: Callable[[], T]) -> T:
        """Call something in the next step."""
        future: Future[T] = Future()
        with self._lock:
            self._calls.append((future, function))
        self._beside.wake()
        return await asyncio.wrap_future(future)

    async def end(self) -> None:
        """Write what was put, sync it, and let go of the log."""
        self._is_ended = True
        await self._beside.ended()
        await self._log.outside.workers.call(self._log.close)
        await self._acknowledged.end()

    def _forget_synced(self) -> None:
        upto = max(self._state.synced, self.trim_to)
        if self._retained_from is not None:
            upto = min(upto, self._retained_from - 1)
        with self._lock:
            while self._waiting and self._waiting[0].number <= upto:
                self._waiting_bytes -= self._waiting.popleft().nbytes

    # --- beside the event loop ----------------------------------------------------------------------------------

    def step(self) -> float | None:
        """Do what is due; return after how many seconds the next step is due, None after the last."""
        now_s = self._now()
        with self._lock:
            trim_to, is_ended, asked = self.trim_to, self._is_ended, self._beside.asked
            waiting = self._due_now(now_s, is_ended)
        self._trim(trim_to, now_s)
        self._skipped = trim_to
        if (waiting or self._writing.problem) and (is_ended or now_s >= self._writing.not_before_s):
            self._write(waiting, now_s)
        self._look_around(now_s)
        self._report()
        with self._lock:
            calls = list(self._calls)
            self._calls.clear()
        for future, function in calls:
            _answer(future, function)
        self._beside.answer(asked)
        if is_ended:
            return None
        again = [attempt.not_before_s for attempt in (self._writing, self._trimming) if attempt.problem is not None]
        with self._lock:
            self._sleeps = not self._waiting
            again.append(self._room_at + ROOM_EVERY_S)
            if self._waiting:
                again.append(self._seen_s + LAZY_S)
        return max(0.0, min(again, default=math.inf) - now_s)

    def _look_around(self, now_s: float) -> None:
        if now_s - self._room_at >= ROOM_EVERY_S:
            self._room, self._room_at = self._log.free_room(), now_s
            with contextlib.suppress(OSError):  # the note that stays says less, and nothing that is not so
                self._acknowledged.write()

    def _due_now(self, now_s: float, is_ended: bool) -> list[Received]:
        """Return what of all that waits is to be written."""
        if now_s >= self._seen_s + LAZY_S:
            self._due, self._seen, self._seen_s = self._seen, self.next - 1, now_s
        upto = self.next - 1 if is_ended or self._waiting_bytes >= WRITTEN_FROM else max(self._due, self._wanted)
        first = self._waiting[0].number if self._waiting else 0
        start = max(0, max(self._synced, self.trim_to) + 1 - first)
        return list(islice(self._waiting, start, max(start, upto + 1 - first)))

    def _trim(self, number: int, now_s: float) -> None:
        if number <= self._trimmed or now_s < self._trimming.not_before_s:
            return
        try:
            self._gone = self._log.trim(number)
        except OSError as error:
            self._trimming.failed(f"a segment of the journal cannot be removed: {error}", now_s)
        else:
            self._trimmed = number
            self._trimming.succeeded()

    def _write(self, waiting: Sequence[Received], now_s: float) -> None:
        written = 0
        try:
            if not waiting:
                self._log.probe()  # the database has what could not be written
            while written < len(waiting):
                together = self._that_fit(waiting[written:])
                self._tried = max(self._tried, together[-1].number)
                self._log.append(together)
                self._log.sync()
                self._synced = together[-1].number
                written += len(together)
        except (LogFull, OSError) as error:  # which segment it was changes with each try
            why = f"{self._log.folder}: {reason_of(error)}" if isinstance(error, OSError) else error
            self._writing.failed(f"the journal cannot be written: {why}", now_s)
        else:
            self._writing.succeeded()

    def _that_fit(self, waiting: Sequence[Received]) -> Sequence[Received]:
        """As many as there is room for, and at least one, which finds out whether there is any."""
        room = min(self._log.room if self._writing.problem is None else self._log.free_room(), TOGETHER)
        return waiting[: max(1, count_fitting((received.nbytes for received in waiting), room))]

    def _report(self) -> None:
        state = self._new_state()
        if state != self._state:
            self._state = state
            self._loop.call_soon_threadsafe(self._changed, state)

    def _new_state(self) -> LogState:
        return LogState(
            synced=self._synced,
            gone=self._gone,
            tried=self._tried,
            skipped=self._skipped,
            nbytes=self._log.nbytes,
            room=max(0, min(self._room, self._log.room)),
            problem=self._writing.problem or self._reading.problem or self._trimming.problem,
        )

    @fail_stop()
    def _changed(self, state: LogState) -> None:
        self._forget_synced()
        self._report_change(state)


def _answer(future: "Future[Any]", function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except OSError as error:
        future.set_exception(error)


class Kept(Protocol):
    """The log of a group, from which a pipeline can begin again."""

    @property
    def stretches(self) -> Container[int]:
        """Sessions of which the log may hold something."""

    @property
    def state(self) -> LogState:
        """Return how far it is."""

    @property
    def is_full(self) -> bool:
        """Tell whether sources have to hold back."""

    def note_acknowledged(self, position: JournalPosition) -> None:
        """The database acknowledged a commit at this position."""

"""The keeper of the intake's log: it writes, syncs and reads beside the event loop.

What came while it synced is written and synced together, so that a slow disk makes larger steps, not a longer queue.
What waits stays in memory until it is synced: after a failure it is appended again.
"""

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from daemon.core.supervision.fail_stop import fail_stop
from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.fitting import count_fitting
from daemon.pipeline.intake_log.format import Received
from daemon.pipeline.intake_log.log import IntakeLog
from daemon.pipeline.journal.beside import Attempt, Beside
from daemon.pipeline.journal.errors import JournalFull
from schemas.readings import Array

T = TypeVar("T")

TOGETHER = 8 * 2**20
"""Bytes written as one."""

WAITING_MOST = 64 * 2**20
"""Bytes that may wait in memory to be written before the disk counts as too slow."""


@dataclass(frozen=True, kw_only=True)
class IntakeState:
    """How far the log is.

    synced: all records up to this number are on the disk. gone: those up to this number are not, any more.
    tried, skipped: those above `tried` never were; of these, those up to `skipped` never will be.
    nbytes: what the log takes of the disk.
    problem: what failed and is tried again, else None.
    """

    synced: int
    gone: int
    tried: int
    skipped: int
    nbytes: int
    problem: str | None


class IntakeKeeper:
    """Hands readings to the log.

    log: open. changed: called on the event loop with every new state.
    """

    def __init__(self, log: IntakeLog, changed: Callable[[IntakeState], None]) -> None:
        self._log = log
        self._clock = log.outside.clock
        self._report_change = changed
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._beside = Beside(log.outside.workers, "the keeper of the intake's log", self.step)
        self.next = log.next
        self._waiting: deque[Received] = deque()  # those that are not synced, and those that are retained
        self._waiting_bytes = 0
        self._tried = self._synced = log.next - 1
        self._gone = self._trim_to = self._trimmed = self._skipped = 0
        self._retained_from: int | None = None
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._is_ended = False
        self._writing, self._trimming = Attempt(), Attempt()
        self._state = self._new_state()

    def _now(self) -> float:
        return self._clock.now().monotonic_ns / 1e9

    @property
    def state(self) -> IntakeState:
        """How far it is, as it was reported last."""
        return self._state

    @property
    def is_full(self) -> bool:
        """Whether the disk cannot take what comes."""
        return self._waiting_bytes >= WAITING_MOST

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

    def put(self, received_ns: int, runs: Array, readings: Array) -> int:
        """Keep what came together, as in `Received`; return its number."""
        received = Received(number=self.next, received_ns=received_ns, runs=runs, readings=readings)
        self.next += 1
        with self._lock:
            self._waiting.append(received)
            self._waiting_bytes += received.nbytes
        self._beside.wake()
        return received.number

    def trim(self, number: int) -> None:
        """All up to this number is safe elsewhere; what of it is not written yet needs no writing."""
        self._trim_to = number
        self._forget_synced()
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

    async def read(self, most_bytes: int) -> list[Received]:
        """Read the next records; see `IntakeLog.read`.

        Raises:
            OSError: the disk failed.
        """
        return await self._call(lambda: self._log.read(most_bytes))

    async def doubt(self) -> None:
        """See `IntakeLog.doubt`.

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

    def _forget_synced(self) -> None:
        upto = max(self._state.synced, self._trim_to)
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
            first = self._waiting[0].number if self._waiting else 0
            waiting = list(islice(self._waiting, max(0, max(self._synced, self._trim_to) + 1 - first), None))
            trim_to, is_ended, asked = self._trim_to, self._is_ended, self._beside.asked
        self._trim(trim_to, now_s)
        self._skipped = trim_to
        if (waiting or self._writing.problem) and (is_ended or now_s >= self._writing.not_before_s):
            self._write(waiting, now_s)
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
        return max(0.0, min(again, default=math.inf) - now_s)

    def _trim(self, number: int, now_s: float) -> None:
        if number <= self._trimmed or now_s < self._trimming.not_before_s:
            return
        try:
            self._gone = self._log.trim(number)
        except OSError as error:
            self._trimming.failed(f"a segment of the intake's log cannot be removed: {error}", now_s)
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
        except (JournalFull, OSError) as error:
            self._writing.failed(f"the intake's log cannot be written: {error}", now_s)
        else:
            self._writing.succeeded()

    def _that_fit(self, waiting: Sequence[Received]) -> Sequence[Received]:
        """As many as there is room for, and at least one, which finds out whether there is any."""
        room = min(self._log.room, TOGETHER)
        return waiting[: max(1, count_fitting((received.nbytes for received in waiting), room))]

    def _report(self) -> None:
        state = self._new_state()
        if state != self._state:
            self._state = state
            self._loop.call_soon_threadsafe(self._changed, state)

    def _new_state(self) -> IntakeState:
        return IntakeState(
            synced=self._synced,
            gone=self._gone,
            tried=self._tried,
            skipped=self._skipped,
            nbytes=self._log.nbytes,
            problem=self._writing.problem or self._trimming.problem,
        )

    @fail_stop()
    def _changed(self, state: IntakeState) -> None:
        self._forget_synced()
        self._report_change(state)


def _answer(future: "Future[Any]", function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except OSError as error:
        future.set_exception(error)

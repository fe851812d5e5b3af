"""The daemon's clocks."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

STANDSTILL_NS = 5_000_000_000
"""A process that asks for the time all the while, and has not for so long, stood still."""
TICK_S = 0.25
"""Time between two questions at most, while standstills are noticed."""


class Instant(NamedTuple):
    """One moment on two clocks: UTC for what is stored, monotonic for timeouts, so that a clock step closes nothing.

    Both in nanoseconds; UTC since 1970-01-01. The monotonic one stands while the process stands still.
    """

    utc_ns: int
    monotonic_ns: int


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> Instant:
        """Now, on both clocks."""


class SystemClock:
    """The system's clocks."""

    def now(self) -> Instant:
        """Now, on both clocks."""
        return now()


class Standstills:
    """The times in which this process did not run: stopped, its machine suspended, or without processor time.

    They are left out of the monotonic clock, so that what waits for an answer, or for a reading, waits as long as ever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked_ns = 0
        self._left_out_ns = 0
        self._untold_ns = 0
        self._watchers = 0

    @contextmanager
    def noticed(self) -> Iterator[None]:
        """Notice them within: who enters this asks for the time every `TICK_S`."""
        self._asked_ns = time.monotonic_ns()
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1

    def monotonic_ns(self) -> int:
        """Now, in ns of CLOCK_MONOTONIC without standstills."""
        now_ns = time.monotonic_ns()
        if self._watchers and now_ns - self._asked_ns > STANDSTILL_NS:
            with self._lock:  # of several threads one leaves it out
                stood_ns = now_ns - self._asked_ns - int(TICK_S * 1e9)
                if stood_ns > 0:
                    self._left_out_ns += stood_ns
                    self._untold_ns += stood_ns
                    self._asked_ns = now_ns
        self._asked_ns = max(self._asked_ns, now_ns)
        return now_ns - self._left_out_ns

    def take_s(self) -> float:
        """Return how long it stood still since the last call, in s."""
        self.monotonic_ns()
        with self._lock:
            untold_ns, self._untold_ns = self._untold_ns, 0
        return untold_ns / 1e9


STANDSTILLS = Standstills()


def monotonic_ns() -> int:
    """Now, in ns of CLOCK_MONOTONIC without standstills of this process."""
    return STANDSTILLS.monotonic_ns()


def now() -> Instant:
    """Now, on both of the system's clocks."""
    return Instant(time.time_ns(), monotonic_ns())

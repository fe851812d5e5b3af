"""The daemon's clocks."""

import time
from typing import NamedTuple, Protocol


class Instant(NamedTuple):
    """One moment on two clocks: UTC for what is stored, monotonic for timeouts, so that a clock step closes nothing.

    Both in nanoseconds; UTC since 1970-01-01.
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


def now() -> Instant:
    """Now, on both of the system's clocks."""
    return Instant(time.time_ns(), time.monotonic_ns())

"""The daemon's clocks."""

import time

from daemon.assembly import Instant


def now() -> Instant:
    """Now, on both clocks."""
    return Instant(time.time_ns(), time.monotonic_ns())

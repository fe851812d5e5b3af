"""Times of receipt, for readings that come without a time of their own."""

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.reports import AHEAD_NS
from schemas.readings import Array


class ReceiptTimes:
    """Gives the readings of one group their times.

    ascend: give each a later one than all before. Where time alone says which report holds, those that came in one
    block would else be taken for one, and those that came after the clock was set back would lie behind earlier ones.
    """

    def __init__(self, *, ascend: bool) -> None:
        self._ascend = ascend
        self._last_ns = 0

    def begin_after(self, utc_ns: int) -> None:
        """An earlier process gave none that was later than this."""
        self._last_ns = max(self._last_ns, utc_ns)

    def give(self, times: Array, now: Instant) -> Instant:
        """Replace each 0 of these times, in place: int64, shape (n,).

        Returns the moment as of which they came, which none of those given is beyond.
        """
        if times.all():
            return now
        is_missing = times == 0
        if not self._ascend:
            times[is_missing] = now.utc_ns
            return now
        count = int(np.count_nonzero(is_missing))
        first = max(now.utc_ns, self._last_ns + 1)
        if first > now.utc_ns + AHEAD_NS:
            first = now.utc_ns  # the clock was wrong before: what it says now is to be seen, and not years later
        times[is_missing] = first + np.arange(count)
        self._last_ns = first + count - 1
        return Instant(self._last_ns, now.monotonic_ns)

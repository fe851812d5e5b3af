"""How much a count grew lately: of what is an alarm for a while after it happened."""

from collections import deque

from daemon.core.outside.clock import Instant
from schemas.api.status import LATELY_S, Recent

_SLOT_NS = 10_000_000_000
"""What happens within it is forgotten together."""


class Lately:
    """A count, noted now and then, and how much it grew within the last `LATELY_S`.

    Where the count falls, since what was missing came after all, it grew less, the newest first.
    """

    def __init__(self) -> None:
        self._total = 0
        self._slots: deque[tuple[int, int]] = deque()  # when each began (CLOCK_MONOTONIC), and by how much it grew
        self._since_ns = 0

    def note(self, total: int, now: Instant) -> None:
        """The count is this now."""
        self._forget(now.monotonic_ns)
        grown, self._total = total - self._total, total
        if not self._slots:
            self._since_ns = now.utc_ns
        while grown < 0 and self._slots:
            began_ns, count = self._slots.pop()
            grown += count
            if grown > 0:
                self._slots.append((began_ns, grown))
                return
        if grown > 0:
            self._add(grown, now.monotonic_ns)

    def _add(self, grown: int, monotonic_ns: int) -> None:
        if self._slots and monotonic_ns - self._slots[-1][0] < _SLOT_NS:
            began_ns, count = self._slots.pop()
            self._slots.append((began_ns, count + grown))
        else:
            self._slots.append((monotonic_ns, grown))

    def recent(self, now: Instant) -> Recent:
        """How much it grew, and since when without a pause as long as that."""
        self._forget(now.monotonic_ns)
        count = sum(count for _, count in self._slots)
        return Recent(count=count, since_ns=self._since_ns if count else None)

    def _forget(self, monotonic_ns: int) -> None:
        while self._slots and monotonic_ns - self._slots[0][0] >= LATELY_S * 1e9:
            self._slots.popleft()

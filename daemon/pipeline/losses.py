"""Readings that a group lost before assembly, and trigger numbers that were skipped."""

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


MOST_LOST = 2**62
"""A sender that greets with forged numbers must not have counts grow beyond what programs can read."""


class Losses:
    """Counts since the start, and how much they grew lately.

    dropped: readings that sources had to throw away, by reason. lost: readings that are proven lost, by how.
    """

    def __init__(self) -> None:
        self.dropped: dict[str, int] = {}
        self.lost: dict[str, int] = {}
        self._skipped_lately = Lately()
        self._lost_lately: dict[str, Lately] = {}

    def drop(self, reason: str, count: int) -> None:
        """Count readings that a source had to throw away."""
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def lose(self, readings: int, reason: str, now: Instant) -> None:
        """Count readings that are proven lost."""
        self.lost[reason] = min(MOST_LOST, self.lost.get(reason, 0) + readings)
        self._lost_lately.setdefault(reason, Lately()).note(self.lost[reason], now)

    def note_skipped(self, total: int, now: Instant) -> None:
        """So many trigger numbers have been skipped by now."""
        self._skipped_lately.note(total, now)

    def skipped_lately(self, now: Instant) -> Recent:
        """How many trigger numbers were skipped lately."""
        return self._skipped_lately.recent(now)

    def lost_lately(self, now: Instant) -> dict[str, Recent]:
        """How many readings were lost lately, by how."""
        return {reason: lately.recent(now) for reason, lately in self._lost_lately.items()}

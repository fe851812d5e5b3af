"""Readings that a group lost before assembly, and trigger numbers that were skipped."""

from daemon.core.outside.clock import Instant
from daemon.pipeline.lately import Lately
from schemas.api.status import Recent

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

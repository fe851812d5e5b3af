"""The timeline: when each of the last triggers was, by most of the instruments."""

from dataclasses import dataclass

import numpy as np

from schemas.readings import Array

KEPT = 4096
"""Triggers kept. A slip of more than these is still seen, but its offset is then computed from the rate."""

ENDLESS_NS = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which trigger a timestamp belongs to; all of shape (n,).

    trigger: int64, the nearest in time. off_ns: int64, the timestamp less that trigger's time.
    gap_ns: int64, from that trigger to its nearer neighbour. between: bool, the timestamp lies between two triggers
    that follow each other. beyond: bool, it lies after the newest.
    """

    trigger: Array
    off_ns: Array
    gap_ns: Array
    between: Array
    beyond: Array


class Timeline:
    """Reference times of triggers: int64 ns, ascending by trigger number."""

    def __init__(self) -> None:
        self.trigger = np.empty(0, np.int64)
        self.time_ns = np.empty(0, np.int64)
        self._by_time = np.empty(0, np.intp)

    def __len__(self) -> int:
        return len(self.trigger)

    def add(self, trigger: Array, time_ns: Array) -> None:
        """Add triggers, int64 (n,), each once, and their times; what was known of them is replaced."""
        kept = ~np.isin(self.trigger, trigger)
        numbers = np.concatenate([self.trigger[kept], trigger])
        times = np.concatenate([self.time_ns[kept], time_ns])
        order = np.argsort(numbers)[-KEPT:]
        self.trigger, self.time_ns = numbers[order], times[order]
        self._by_time = np.argsort(self.time_ns, kind="stable")

    def clear(self) -> None:
        """Forget all: what comes next does not join on."""
        self.__init__()  # type: ignore[misc]

    @property
    def period_ns(self) -> float:
        """Mean time between two trigger numbers; 0 with fewer than two triggers."""
        if len(self.trigger) < 2:
            return 0.0
        return float(self.time_ns[-1] - self.time_ns[0]) / float(self.trigger[-1] - self.trigger[0])

    def when(self, trigger: Array) -> tuple[Array, Array]:
        """The times of triggers, int64 (n,), and which are known, bool (n,)."""
        at = np.minimum(np.searchsorted(self.trigger, trigger), len(self.trigger) - 1)
        return self.time_ns[at], self.trigger[at] == trigger

    def match(self, time_ns: Array) -> Match:
        """Find the trigger of each timestamp, int64 (n,). The timeline must not be empty."""
        times, numbers = self.time_ns[self._by_time], self.trigger[self._by_time]
        last = len(times) - 1
        after = np.searchsorted(times, time_ns)
        right, left = np.minimum(after, last), np.maximum(after - 1, 0)
        nearest = np.where(time_ns - times[left] <= times[right] - time_ns, left, right)
        nearest = np.where(after == 0, 0, np.where(after > last, last, nearest))
        gaps = np.concatenate([[ENDLESS_NS], np.diff(times), [ENDLESS_NS]])
        steps = np.diff(self.trigger)
        usual = np.median(steps) if len(steps) else 1
        inside = (after > 0) & (after <= last)
        return Match(
            trigger=numbers[nearest],
            off_ns=time_ns - times[nearest],
            gap_ns=np.minimum(gaps[nearest], gaps[nearest + 1]),
            between=inside & (numbers[right] - numbers[left] <= usual) & (numbers[right] > numbers[left]),
            beyond=after > last,
        )

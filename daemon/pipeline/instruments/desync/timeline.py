"""The timeline: when each of the last triggers was, by most of the instruments."""

from dataclasses import dataclass

import numpy as np

from schemas.readings import Array

KEPT = 4096
"""Triggers kept. A slip of more than these is still seen, but its offset is then computed from the rate."""

NONE = np.iinfo(np.int64).max
"""Stands where an instrument has no reading."""

LEAST = 3
"""Instruments without which there is no majority: of two that disagree nobody knows which one is right."""

MOST = 1 << 61
"""Timestamps and numbers are held within this: garbage must not overflow in a difference."""

NEAR = 5
"""A timestamp is that of a trigger when it lies within this part of the way to the next trigger."""


def tame(values: Array) -> Array:
    """Int64 values of any shape, those beyond MOST at MOST."""
    return np.asarray(np.clip(values, -MOST, MOST))


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Triggers, int64 (t,), ascending, each once; times: int64 ns (t, instruments), NONE where there is no reading."""

    trigger: Array
    times: Array

    @classmethod
    def join(cls, parts: list[tuple[Array, Array]], late: Array, instruments: int) -> "Rows":
        """Join rows (triggers, times) that may share triggers, and single readings, record dtype (l,)."""
        numbers = [trigger for trigger, _ in parts]
        trigger, where = np.unique(np.concatenate([*numbers, late["trigger"]]), return_inverse=True)
        times = np.full((len(trigger), instruments), NONE, np.int64)
        begin = 0
        for mine, part in parts:
            at = where[begin : begin + len(mine)]
            times[at] = np.minimum(times[at], part)
            begin += len(mine)
        times[where[begin:], late["instrument"]] = tame(late["time_ns"])
        return cls(trigger=trigger, times=times)


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which trigger a timestamp belongs to; all of shape (n,).

    trigger: int64, the nearest in time. off_ns: int64, the timestamp less that trigger's time.
    gap_ns: int64, from that trigger to its nearer neighbour. between: bool, the timestamp lies between two triggers
    that follow each other.
    """

    trigger: Array
    off_ns: Array
    gap_ns: Array
    between: Array


class Timeline:
    """Reference times of triggers: int64 ns, ascending by trigger number.

    spread_ns: how close together half of the instruments lie, typically.
    """

    def __init__(self) -> None:
        self.spread_ns = 0
        self._active = 0
        self.clear()

    def __len__(self) -> int:
        return len(self.trigger)

    def clear(self) -> None:
        """Forget when triggers were: what comes next does not join on."""
        self.trigger = np.empty(0, np.int64)
        self.time_ns = np.empty(0, np.int64)
        self._by_time = np.empty(0, np.intp)

    def refer(self, rows: Rows) -> None:
        """Learn when triggers were: the median timestamp of each of which more than half of the instruments are there.

        The instruments are those active: who is gone for good fades out of the count within seconds.
        """
        here = int((rows.times != NONE).any(axis=0).sum())
        self._active = max(here, self._active - 1 - self._active // 16)
        ordered = np.sort(rows.times, axis=1)
        count = np.count_nonzero(ordered != NONE, axis=1)
        known = (2 * count > self._active) & (count >= LEAST)
        if not known.any():
            return
        ordered, count = ordered[known], count[known]
        self._add(rows.trigger[known], ordered[np.arange(len(count)), (count - 1) // 2])
        # The narrowest stretch that holds half of them: those that slipped do not widen it.
        half, tamed = self._active // 2, np.minimum(ordered, MOST)
        self.spread_ns = int(np.median((tamed[:, half:] - tamed[:, : tamed.shape[1] - half]).min(axis=1)))

    def _add(self, trigger: Array, time_ns: Array) -> None:
        kept = ~np.isin(self.trigger, trigger)
        numbers = np.concatenate([self.trigger[kept], trigger])
        times = np.concatenate([self.time_ns[kept], time_ns])
        order = np.argsort(numbers)[-KEPT:]
        self.trigger, self.time_ns = numbers[order], times[order]
        self._by_time = np.argsort(self.time_ns, kind="stable")

    @property
    def period_ns(self) -> float:
        """Mean time between two trigger numbers; 0 with fewer than two triggers."""
        if len(self.trigger) < 2:
            return 0.0
        return float(self.time_ns[-1] - self.time_ns[0]) / float(self.trigger[-1] - self.trigger[0])

    def nearest_gap_ns(self, triggers: int) -> int:
        """Return the shortest time between two of the last triggers."""
        gaps = np.diff(np.sort(self.time_ns[-triggers:]))
        return int(gaps.min(initial=MOST))

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
        gaps = np.concatenate([[MOST], np.diff(times), [MOST]])
        steps = np.diff(self.trigger)
        usual = np.median(steps) if len(steps) else 1
        inside = (after > 0) & (after <= last)
        return Match(
            trigger=numbers[nearest],
            off_ns=time_ns - times[nearest],
            gap_ns=np.minimum(gaps[nearest], gaps[nearest + 1]),
            between=inside & (numbers[right] - numbers[left] <= usual) & (numbers[right] > numbers[left]),
        )

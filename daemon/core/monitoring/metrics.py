"""What is measured while logging: latencies and rates, in constant memory."""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

import numpy as np

from schemas.api.status import Latency
from schemas.readings import Array

BOUNDS_MS: tuple[float, ...] = tuple(
    float(bound) for bound in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
)
"""Upper bounds of the buckets that Prometheus gets, in milliseconds."""

_FINE_PER_DECADE = 100
_FINE_FIRST_MS = 0.01
_FINE = int(8 * _FINE_PER_DECADE)  # up to 1e6 ms
_SECONDS = 10
_TOGETHER = 256
_BEYOND = 10
"""Samples that have to lie beyond a percentile for it to say something of all, not of a few."""


class Latencies:
    """Latencies of the last ten seconds in buckets 2.3 % wide, for percentiles; and all of them, for Prometheus."""

    def __init__(self) -> None:
        self._sum_ms = 0.0
        self._buckets = np.zeros(len(BOUNDS_MS) + 1, np.int64)
        self._all = np.zeros(_FINE, np.int64)
        self._fine = np.zeros((_SECONDS, _FINE), np.int64)
        self._most = np.zeros(_SECONDS)
        self._second = np.full(_SECONDS, -1, np.int64)
        self._added: list[tuple[float, int]] = []  # in this second, and not counted yet: numpy takes many as one
        self._added_ns = 0

    def add(self, value_ms: float, count: int, monotonic_ns: int) -> None:
        """Count a latency so many times."""
        if monotonic_ns // 1_000_000_000 != self._added_ns // 1_000_000_000 or len(self._added) >= _TOGETHER:
            self._count()
        self._added.append((value_ms, count))
        self._added_ns = monotonic_ns

    def _count(self) -> None:
        if not self._added:
            return
        values = np.array([value for value, _ in self._added])
        counts = np.array([count for _, count in self._added])
        self._added = []
        self._sum_ms += float(values @ counts)
        np.add.at(self._buckets, np.searchsorted(BOUNDS_MS, values), counts)
        row = self._row(self._added_ns)
        decades = np.log10(np.maximum(values, _FINE_FIRST_MS) / _FINE_FIRST_MS)
        fine = np.minimum((decades * _FINE_PER_DECADE).astype(np.int64), _FINE - 1)
        np.add.at(self._fine[row], fine, counts)
        np.add.at(self._all, fine, counts)
        self._most[row] = max(self._most[row], float(values.max()))

    @property
    def sum_ms(self) -> float:
        """All of them together."""
        self._count()
        return self._sum_ms

    @property
    def buckets(self) -> Array:
        """All of them by `BOUNDS_MS`: int64, shape (bounds + 1,)."""
        self._count()
        return self._buckets

    @property
    def fine(self) -> Array:
        """All of them in fine buckets: int64, shape (800,), ever growing.

        The difference between two moments is what came in between (`percentile_of`).
        """
        self._count()
        return self._all

    def latency(self, monotonic_ns: int) -> Latency:
        """Return the percentiles of the last ten seconds; the greatest is exact."""
        self._count()
        recent = self._second > monotonic_ns // 1_000_000_000 - _SECONDS
        below = np.cumsum(self._fine[recent].sum(axis=0))
        total = int(below[-1])
        if not total:
            return Latency(p50=None, p99=None, max=None)
        most = float(self._most[recent].max())
        tail = min(99.0, max(50.0, 100 - 100 * _BEYOND / total))
        p50, p99, tail_ms = (min(most, _upper_ms(below, percent)) for percent in (50, 99, tail))
        return Latency(p50=p50, p99=p99, max=most, tail=tail_ms, is_p99_known=total >= 100 * _BEYOND)

    def _row(self, monotonic_ns: int) -> int:
        second = monotonic_ns // 1_000_000_000
        row = int(second % _SECONDS)
        if self._second[row] != second:
            self._second[row] = second
            self._fine[row] = 0
            self._most[row] = 0.0
        return row


def percentile_of(fine: Array, percent: float) -> float | None:
    """A percentile (0 to 100) of latencies counted as in `Latencies.fine`, in ms; None when there are none."""
    below = np.cumsum(fine)
    return _upper_ms(below, percent) if below[-1] else None


def percentile_within(fine: Array, percent: float) -> float | None:
    """As `percentile_of`, but a place within the bucket, by the rank: ratios are not steps of its width, 2.3 %."""
    below = np.cumsum(fine)
    if not below[-1]:
        return None
    wanted = max(1.0, below[-1] * percent / 100)
    bucket = int(np.searchsorted(below, wanted))
    part = 1.0 - float(below[bucket] - wanted) / float(fine[bucket])
    return float(_FINE_FIRST_MS * 10 ** ((bucket + part) / _FINE_PER_DECADE))


def _upper_ms(below: Array, percent: float) -> float:
    """The upper bound of the bucket a percentile lies in; `below` are cumulative counts."""
    bucket = int(np.searchsorted(below, max(1, below[-1] * percent / 100)))
    return float(_FINE_FIRST_MS * 10 ** ((bucket + 1) / _FINE_PER_DECADE))


class Rates:
    """Rates of growing counters: means over the last second, or longer while that holds too few events to be steady."""

    def __init__(self, over_ns: int = 1_000_000_000, most_ns: int = 5_000_000_000, enough: int = 50) -> None:
        self._over_ns, self._most_ns, self._enough = over_ns, most_ns, enough
        self._samples: list[tuple[int, tuple[int, ...]]] = []

    def sample(self, monotonic_ns: int, *counters: int) -> list[float]:
        """Take the counters now; return the growth of each, a second. The first decides what is enough."""
        samples = self._samples
        samples.append((monotonic_ns, counters))
        while len(samples) > 2 and monotonic_ns - samples[1][0] >= self._most_ns:
            del samples[0]
        then, before = self._reference(monotonic_ns, counters[0])
        seconds = (monotonic_ns - then) / 1e9
        if seconds <= 0:
            return [0.0 for _ in counters]
        return [(now - past) / seconds for now, past in zip(counters, before, strict=True)]

    def _reference(self, monotonic_ns: int, counter: int) -> tuple[int, tuple[int, ...]]:
        old = bisect_right(self._samples, monotonic_ns - self._over_ns, key=lambda sample: sample[0])
        far = bisect_right(self._samples, counter - self._enough, hi=old, key=lambda sample: sample[1][0])
        return self._samples[max(0, far - 1)]


@dataclass(slots=True)
class _Moment:
    began_ns: int
    last_ns: int
    count: int


class Recent:
    """How much was counted within the last moments, in a few hundred entries however often it is counted.

    What is up to 1/256 too old may still be counted; nothing young is left out, but for what came before `keep`.
    """

    def __init__(self) -> None:
        self._keep_ns = 0
        self._moments: deque[_Moment] = deque()
        self._total = 0

    def keep(self, keep_ns: int) -> None:
        """Look back so far from now on; 0 counts nothing."""
        self._keep_ns = keep_ns

    def add(self, count: int, monotonic_ns: int) -> None:
        """Count something now."""
        if not self._keep_ns:
            return
        newest = self._moments[-1] if self._moments else None
        if newest is None or monotonic_ns - newest.began_ns > self._keep_ns // 256:
            self._moments.append(_Moment(monotonic_ns, monotonic_ns, count))
        else:
            newest.last_ns = monotonic_ns
            newest.count += count
        self._total += count
        self._forget(monotonic_ns)

    def count(self, monotonic_ns: int) -> int:
        """How much was counted within the last `keep_ns`."""
        self._forget(monotonic_ns)
        return self._total

    def _forget(self, monotonic_ns: int) -> None:
        while self._moments and monotonic_ns - self._moments[0].last_ns >= self._keep_ns:
            self._total -= self._moments.popleft().count

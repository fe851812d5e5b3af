"""Statistics of what was measured: pure functions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from daemon.workloads.visits.figures import students_t
from schemas.readings import Array


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A median with its spread: quartiles from five values on, the least and the most of fewer."""

    median: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Spread":
        """The same in another unit; factor > 0."""
        return Spread(median=self.median * factor, low=self.low * factor, high=self.high * factor)


QUARTILES_FROM = 5


def spread(values: Sequence[float]) -> Spread:
    """Summarise one value a round; at least one.

    Raises:
        ValueError: there is none.
    """
    if not len(values):
        raise ValueError("no rounds, no median")
    edges = (25, 75) if len(values) >= QUARTILES_FROM else (0, 100)
    low, middle, high = (float(value) for value in np.percentile(values, (edges[0], 50, edges[1])))
    return Spread(median=middle, low=low, high=high)


def ratio(of: Sequence[float], to: Sequence[float]) -> Spread:
    """Ratio round by round: interleaved rounds of the same number met the same machine. Same lengths, none 0."""
    return spread([a / b for a, b in zip(of, to, strict=True)])


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A mean ratio with the ends of its 95 % interval, which a single round does not have."""

    value: float
    low: float | None
    high: float | None


def mean_ratio(of: Sequence[float], to: Sequence[float]) -> Ratio:
    """Geometric mean of the ratios round by round, with Student's interval. Same lengths, at least 1, all above 0."""
    logarithms = np.log(np.asarray(of, np.float64) / np.asarray(to, np.float64))
    middle, count = float(logarithms.mean()), len(logarithms)
    if count < 2:
        return Ratio(value=math.exp(middle), low=None, high=None)
    half = students_t(count - 1) * float(logarithms.std(ddof=1)) / math.sqrt(count)
    return Ratio(value=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half))


@dataclass(frozen=True, kw_only=True)
class Percentiles:
    """Latencies in milliseconds."""

    p50: float
    p99: float
    max: float


def percentiles(latencies_ms: Array) -> Percentiles:
    """Percentiles by the nearest rank, as the daemon's histogram counts them; float64, shape (n,), n > 0."""
    p50, p99, most = np.percentile(latencies_ms, (50, 99, 100), method="inverted_cdf")
    return Percentiles(p50=float(p50), p99=float(p99), max=float(most))


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Slope of the second half of a series by least squares, in units of `values` over units of `times`.

    Raises:
        ValueError: the second half has fewer than two times.
    """
    half = len(times) // 2
    t, v = np.asarray(times[half:], float), np.asarray(values[half:], float)
    if len(t) < 2 or np.ptp(t) == 0:
        raise ValueError("a slope needs two different times in the second half")
    t = t - t.mean()
    return float(t @ v / (t @ t))


def commit_rate(acks: Array, instruments: int) -> tuple[float, float]:
    """Triggers a second and seconds from the first commit to the last, by the acknowledgements.

    acks: float64, shape (n, 2): time (s), readings acknowledged until then; ascending. What the first acknowledged is
    not counted: it was committed before the clock began.

    Raises:
        ValueError: there are fewer than two acknowledgements.
    """
    if len(acks) < 2:
        raise ValueError(f"{len(acks)} acknowledgements are too few for a rate; send for longer")
    seconds = float(acks[-1, 0] - acks[0, 0])
    return float(acks[-1, 1] - acks[0, 1]) / instruments / seconds, seconds


def acknowledged_after(sent: Array, acks: Array, instruments: int) -> Array:
    """Time from the sending of each trigger to its acknowledgement, in s; float64, shape (triggers,).

    sent: times in s, shape (triggers,): when the last reading of each had gone out. acks: as in `commit_rate`.

    Raises:
        ValueError: not all are acknowledged.
    """
    wanted = (np.arange(len(sent)) + 1) * instruments
    row = np.searchsorted(acks[:, 1], wanted)
    if len(sent) and row[-1] >= len(acks):
        raise ValueError("not all triggers are acknowledged")
    return np.asarray(acks[row, 0] - sent)

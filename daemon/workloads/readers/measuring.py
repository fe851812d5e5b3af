"""Measurements of a workload: counts, and latencies in an HDR histogram corrected for coordinated omission."""

import itertools
from collections import deque
from dataclasses import dataclass, fields

import numpy as np
from hdrh.histogram import HdrHistogram

from schemas.readings import Array

LEAST_US, MOST_US, DIGITS = 1, 3_600_000_000, 3
"""What the histogram tells apart: 1 us to 1 h, three digits."""

WINDOW_S = 10.0
"""Rates and percentiles are of so many seconds."""

_MARK_S = 1.0
_CORRECTIONS = 1000
"""Waits that one late answer is corrected by are counted one by one up to so many, and in even portions above."""


def new_histogram() -> HdrHistogram:
    """An empty histogram of latencies in microseconds."""
    return HdrHistogram(LEAST_US, MOST_US, DIGITS)


def record(histogram: HdrHistogram, latency_s: float, period_s: float) -> None:
    """Count a latency, and the waits of the questions that it kept from being asked.

    Who asks once in a period and gets an answer after n of them did not ask n times meanwhile; these questions would
    have waited one period less each. That is HdrHistogram's `record_corrected_value`, done in at most 1,000 steps
    however short the period is.
    """
    latency_us = min(max(round(latency_s * 1e6), LEAST_US), MOST_US)
    period_us = round(period_s * 1e6)
    histogram.record_value(latency_us)
    if period_us <= 0 or latency_us <= period_us:
        return
    omitted = -(-latency_us // period_us) - 1
    bounds = np.unique(np.linspace(0, omitted, min(omitted, _CORRECTIONS) + 1).astype(np.int64)).tolist()
    for before, last in itertools.pairwise(bounds):
        histogram.record_value(latency_us - (before + last + 1) // 2 * period_us, last - before)


@dataclass(kw_only=True)
class Totals:
    """What clients have counted; it only grows.

    cycles: answers, late ones among them. in_time: answers within the deadline. failed: questions without an answer.
    slipped_s: by how much late answers moved the questions after them, seconds in all.
    """

    cycles: int = 0
    in_time: int = 0
    failed: int = 0
    rows: int = 0
    slipped_s: float = 0.0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(Totals)})

    def __sub__(self, other: "Totals") -> "Totals":
        return Totals(**{each.name: getattr(self, each.name) - getattr(other, each.name) for each in fields(Totals)})


@dataclass(frozen=True, kw_only=True)
class Lately:
    """The last ten seconds: answers and rows a second; latencies in milliseconds, None where there are none."""

    rate: float = 0.0
    row_rate: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None


@dataclass(slots=True)
class _Mark:
    """What was counted up to a moment."""

    at_s: float
    cycles: int
    rows: int
    counts: Array


class Measured(Totals):
    """What the clients of one workload have measured since the process began; all of it only grows.

    deadline_s: an answer within this long is in time.
    period_s: of each client; 0 corrects nothing, because nobody waits for a turn.
    """

    def __init__(self, *, deadline_s: float, period_s: float, now_s: float) -> None:
        super().__init__()
        self._problem: str | None = None
        self._problem_s = now_s
        self.latency = new_histogram()
        self._deadline_s, self._period_s = deadline_s, period_s
        self._counts = np.ctypeslib.as_array(self.latency.counts)
        self._marks: deque[_Mark] = deque([self._mark(now_s)])

    def answered(self, latency_s: float, rows: int, slipped_s: float) -> None:
        """Count an answer."""
        self.cycles += 1
        self.in_time += latency_s <= self._deadline_s
        self.rows += rows
        self.slipped_s += slipped_s
        record(self.latency, latency_s, self._period_s)

    def unanswered(self, problem: str, now_s: float) -> bool:
        """Count a question that failed, and keep why; return whether that is news."""
        is_news = self.problem(now_s) != problem
        self.failed += 1
        self._problem, self._problem_s = problem, now_s
        return is_news

    def problem(self, now_s: float) -> str | None:
        """What the last question that failed within the last ten seconds failed with."""
        return self._problem if now_s - self._problem_s < WINDOW_S else None

    def lately(self, now_s: float) -> Lately:
        """Rates and percentiles of the last ten seconds; call it at least once a second."""
        newest = self._mark(now_s)
        while len(self._marks) > 1 and now_s - self._marks[1].at_s >= WINDOW_S:
            self._marks.popleft()
        oldest = self._marks[0]
        if now_s - self._marks[-1].at_s >= _MARK_S:
            self._marks.append(newest)
        seconds = max(now_s - oldest.at_s, 1e-9)
        p50, p99, most = percentiles_ms(self.latency, newest.counts - oldest.counts, 50, 99, 100)
        return Lately(
            rate=(newest.cycles - oldest.cycles) / seconds,
            row_rate=(newest.rows - oldest.rows) / seconds,
            p50_ms=p50,
            p99_ms=p99,
            max_ms=most,
        )

    def _mark(self, now_s: float) -> _Mark:
        return _Mark(now_s, self.cycles, self.rows, self._counts.copy())


def percentiles_ms(histogram: HdrHistogram, counts: Array, *wanted: float) -> list[float | None]:
    """Percentiles (0 to 100) in milliseconds, None when there is nothing; a tenth of a millisecond's work.

    counts: int64, as the histogram's own, or of a span of time: the difference between two moments of it.
    """
    below = np.cumsum(counts)
    if not below[-1]:
        return [None for _ in wanted]
    # As get_value_at_percentile, which goes through all the buckets one by one in Python.
    targets = [max(int(below[-1] * percent / 100 + 0.5), 1) for percent in wanted]
    indexes = np.searchsorted(below, targets)
    values = (histogram.get_value_from_index(int(index)) for index in indexes)
    return [histogram.get_highest_equivalent_value(value) / 1000 for value in values]

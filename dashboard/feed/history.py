"""The last days of a group's points, so that a page just opened has its charts filled at once.

The newest minutes are kept as they came; what is older is thinned to two rows a bucket, the least and the greatest
value of each column in the order in which they came, so that a dip of one point still shows a day later.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

Rows = np.ndarray[Any, np.dtype[np.float64]]

RECENT_S = 330.0
"""Kept as it came: the widest range that is drawn point by point (5 minutes), and some slack."""

BUCKET_S = 8.0
"""Width of a thinned bucket: an hour is 900 rows, less than a wide screen has pixels."""

HOUR_S = 3_600.0
"""Kept in such buckets."""

LONG_BUCKET_S = 120.0
KEPT_S = 2 * 86_400.0
"""Kept in long buckets: two days are 2,880 rows, which travel to a browser once."""

GAP_S = 3.0
"""Points further apart than this are not joined by a line: in between nobody knows what happened."""


def thin(rows: Rows) -> Rows:
    """Reduce the rows of one bucket to at most two.

    rows: float64, shape (n, 1 + columns); column 0 is time and ascends. Returns shape (min(n, 2), 1 + columns): in
    each column its least and its greatest value, the one that came first in the first row. NaN is ignored unless a
    whole column is NaN.
    """
    if len(rows) <= 2:
        return rows
    thinned = np.empty((2, rows.shape[1]))
    thinned[:, 0] = rows[0, 0], rows[-1, 0]
    for column in range(1, rows.shape[1]):
        values = rows[:, column]
        if np.isnan(values).all():
            thinned[:, column] = np.nan
            continue
        least, greatest = int(np.nanargmin(values)), int(np.nanargmax(values))
        thinned[:, column] = values[[min(least, greatest), max(least, greatest)]]
    return thinned


class _Tier:
    """Rows that are thinned, a bucket at a time."""

    def __init__(self, bucket_s: float) -> None:
        self._bucket_ms = bucket_s * 1e3
        self._bucket: list[tuple[float, ...]] = []
        self._old: deque[Rows] = deque()

    def add(self, row: tuple[float, ...]) -> None:
        """Take in a row, newer than those before."""
        gap = all(np.isnan(value) for value in row[1:])
        full = bool(self._bucket) and row[0] >= self._bucket[0][0] + self._bucket_ms
        if self._bucket and (full or gap):
            self._old.append(thin(np.array(self._bucket)))
            self._bucket.clear()
        if gap:
            # Within a bucket the least and the greatest would leave the gap out, and the line would be joined over it.
            self._old.append(np.array([row]))
        else:
            self._bucket.append(row)

    def leave(self, before_ms: float) -> Iterator[tuple[float, ...]]:
        """Let go of what lies before a time, and give it back row by row."""
        while self._old and self._old[0][-1, 0] < before_ms:
            for row in self._old.popleft():
                yield tuple(row.tolist())

    def parts(self) -> list[Rows]:
        """What is here, in order."""
        return [*self._old, *([thin(np.array(self._bucket))] if self._bucket else [])]


class History:
    """Points of one group in ascending order of time, thinned where they are old."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._begin()

    def _begin(self) -> None:
        self._recent: deque[tuple[float, ...]] = deque()
        self._hour = _Tier(BUCKET_S)
        self._days = _Tier(LONG_BUCKET_S)

    def add(self, time_ms: float, values: Iterable[float | None]) -> None:
        """Append a point; time is in milliseconds since 1970-01-01 UTC.

        A point not newer than the last is left out; one much older means that the clock was set back, and begins anew.
        """
        row = (time_ms, *(np.nan if value is None else float(value) for value in values))
        if self._recent and time_ms < self._recent[-1][0] - GAP_S * 1e3:
            self._begin()
        if self._recent and time_ms <= self._recent[-1][0]:
            return
        if self._recent and time_ms - self._recent[-1][0] > GAP_S * 1e3:
            self._recent.append((self._recent[-1][0] + 1.0, *[np.nan] * self._columns))
        self._recent.append(row)
        while self._recent[0][0] < time_ms - RECENT_S * 1e3:
            self._hour.add(self._recent.popleft())
        for old in self._hour.leave(time_ms - HOUR_S * 1e3):
            self._days.add(old)
        for _ in self._days.leave(time_ms - KEPT_S * 1e3):
            pass  # it is forgotten

    def rows(self) -> Rows:
        """All of it: float64, shape (n, 1 + columns), column 0 time in ms, NaN where there is no value."""
        parts = [*self._days.parts(), *self._hour.parts()]
        if self._recent:
            parts.append(np.array(self._recent))
        return np.concatenate(parts) if parts else np.empty((0, 1 + self._columns))

"""A list, or a stretch of one, in memory: what assignments and removals make of its breakpoints.

Stores that rewrite a list, or parts of one, use it; what is decided is in `rules`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from schemas.conditions.intervals import END, KEY_DTYPE, Interval, Intervals, Key, NewInterval, TagStatus
from schemas.conditions.rules import Breakpoint, assign, check_attach
from schemas.readings import Array


@dataclass(frozen=True, kw_only=True)
class Point(Breakpoint):
    """A breakpoint with its payload, whose fields are those of Interval; at a gap they are empty."""

    url: str = ""
    checksum: str = ""
    size: int | None = None
    inserted_ns: int = 0


class Line:
    """Breakpoints in the order of their keys: of a whole list, or of a stretch that begins with one of them.

    No two gaps follow one another, and none stands at the beginning of a list.
    """

    def __init__(self, points: Sequence[Point] = ()) -> None:
        self.points = list(points)
        self._keys = [point.key for point in points]

    @property
    def count(self) -> int:
        """How many intervals."""
        return sum(point.id is not None for point in self.points)

    def copy(self) -> "Line":
        """Copy it, to be changed."""
        return Line(self.points)

    def attach(self, point: Point, end: Key, status: TagStatus | None, next_id: Callable[[], int]) -> list[Interval]:
        """Make an interval valid from `point` to `end`; return those that are detached, with the ends that they had.

        A stretch has to hold the last breakpoint before the interval and all up to its end; for a locked tag it has to
        go on to the end of the list.

        next_id: gives the id of what is split off.

        Raises:
            ConditionsRefused: a rule does not permit it; nothing is changed.
        """
        first, after = bisect_left(self._keys, point.key), bisect_right(self._keys, end)
        before, within = self.points[first - 1] if first else None, self.points[first:after]
        newest = self.points[-1] if self.points else None
        check_attach(status, point.key, end, before=before, within=within, newest=newest)
        found = assign(point.key, end, before, within)
        ends = [*(each.key for each in within[1:]), end]
        covered = within[:-1] if within and within[-1].key == end else within
        gone = set(found.detached)
        detached = [interval_of(each, ends[k]) for k, each in enumerate(covered) if each.id in gone]
        rest: list[Point] = []
        if found.moved is not None:
            rest = [replace(covered[-1], key=end)]
        elif found.split is not None and before is not None:
            rest = [replace(before, key=end, id=next_id())]
        elif found.is_gap_at_end:
            rest = [Point(key=end, id=None)]
        self._put(first, first + len(covered), [point, *rest])
        return detached

    def remove(self, start: Key, end: Key) -> Interval | None:
        """Make nothing valid where an interval has just this start and end; return it, or None if there is none.

        A stretch has to hold the last breakpoint before the interval and the first two after its start.
        """
        at = bisect_left(self._keys, start)
        if at == len(self.points) or self.points[at].key != start or self.points[at].id is None or self.end(at) != end:
            return None
        removed = interval_of(self.points[at], end)
        follows_gap = at == 0 or self.points[at - 1].id is None
        is_followed_by_gap = at + 1 < len(self.points) and self.points[at + 1].id is None
        self._put(at, at + 1 + is_followed_by_gap, [] if follows_gap else [Point(key=start, id=None)])
        return removed

    def at(self, key: Key) -> Interval | None:
        """What is valid at a key."""
        found = bisect_right(self._keys, key) - 1
        if found < 0 or self.points[found].id is None or key == END:
            return None
        return interval_of(self.points[found], self.end(found))

    def end(self, position: int) -> Key:
        """Where the breakpoint at a position ends to be valid."""
        return self._keys[position + 1] if position + 1 < len(self._keys) else END

    def intervals(self) -> list[Interval]:
        """All of them, in no list."""
        return [interval_of(point, self.end(k)) for k, point in enumerate(self.points) if point.id is not None]

    def _put(self, first: int, after: int, points: Sequence[Point]) -> None:
        self.points[first:after] = points
        self._keys[first:after] = [point.key for point in points]


def point_of(interval: Interval | NewInterval, id_: int, inserted_ns: int) -> Point:
    """The breakpoint at which an interval begins to be valid."""
    return Point(
        key=interval.start,
        id=id_,
        url=interval.url,
        checksum=interval.checksum,
        size=interval.size,
        inserted_ns=inserted_ns,
    )


def interval_of(point: Point, end: Key) -> Interval:
    """The interval that begins at a breakpoint, in no list."""
    assert point.id is not None
    return Interval(
        id=point.id,
        url=point.url,
        checksum=point.checksum,
        size=point.size,
        start=point.key,
        end=end,
        list=None,
        inserted_ns=point.inserted_ns,
    )


def columns_of(intervals: Sequence[Interval]) -> Intervals:
    """Put intervals into columns."""
    return Intervals(
        ids=np.array([each.id for each in intervals], np.int64),
        starts=np.array([tuple(each.start) for each in intervals], KEY_DTYPE),
        ends=np.array([tuple(each.end) for each in intervals], KEY_DTYPE),
        urls=texts([each.url for each in intervals]),
        checksums=texts([each.checksum for each in intervals]),
        sizes=np.array([-1 if each.size is None else each.size for each in intervals], np.int64),
        inserted_ns=np.array([each.inserted_ns for each in intervals], np.int64),
    )


def rows_of(intervals: Intervals) -> list[NewInterval]:
    """Take columns apart."""
    columns = (intervals.starts, intervals.ends, intervals.urls, intervals.checksums, intervals.sizes)
    return [
        NewInterval(url=url, checksum=checksum, size=None if size == -1 else size, start=Key(*start), end=Key(*end))
        for start, end, url, checksum, size in zip(*(column.tolist() for column in columns), strict=True)
    ]


def texts(values: Sequence[str]) -> Array:
    """An object array of str."""
    found = np.empty(len(values), object)
    found[:] = values
    return found

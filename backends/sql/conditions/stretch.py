"""What attachments and removals change in a stretch of a list, computed in memory: no I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from backends.sql.session import Rows
from schemas.conditions.intervals import Interval, Key, TagStatus
from schemas.conditions.line import Line, Point

Range = tuple[Key, Key]


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is to be written.

    removed: first and last key of each range of keys whose rows go. added: breakpoints that come, also where a row has
    gone. detached: intervals that the list has no more. intervals: how many more it holds than before.
    """

    removed: Sequence[Range]
    added: Sequence[Point]
    detached: Sequence[Interval]
    intervals: int

    def rows(self, ids: Mapping[int | None, int]) -> Rows:
        """Rows of the columns POINT; ids: those for the placeholders."""
        return [
            (*each.key, ids.get(each.id, each.id), each.url, each.checksum, each.size, each.inserted_ns)
            for each in self.added
        ]

    def loose(self, ids: Mapping[int | None, int]) -> Rows:
        """Rows of the columns LOOSE."""
        return [loose_row(each, ids.get(each.id, each.id)) for each in self.detached]


class Stretch:
    """The breakpoints that are touched, as they are stored, and as they become.

    Ids that are still to be taken from the sequence are -1, -2, ... in the order in which they are asked for.

    Args:
        rows: of the columns POINT: what `ConditionsSession.around` gives.
        status: of the tag that has the list.
    """

    def __init__(self, rows: Rows, status: TagStatus | None) -> None:
        points = [point_of(row) for row in rows]
        self._stored = {point.key: point for point in points}
        self._line = Line(points)
        self._status = status
        self._detached: list[Interval] = []
        self.ids = 0

    def take_id(self) -> int:
        """A placeholder."""
        self.ids += 1
        return -self.ids

    def attach(self, point: Point, end: Key) -> None:
        """Attach an interval. Raises ConditionsRefused where it may not be."""
        self._detached += self._line.attach(point, end, self._status, self.take_id)

    def remove(self, start: Key, end: Key) -> bool:
        """Make nothing valid where an interval has just this start and end; whether there is one."""
        return self._line.remove(start, end) is not None

    def change(self) -> Change:
        """What is to be written."""
        stored, wanted = self._stored, {point.key: point for point in self._line.points}
        added = [point for key, point in wanted.items() if stored.get(key) is not point]
        removed: list[Range] = []
        gone = 0
        # Rows that go one after the other are one range. The list has no others between them: it lacks some here only
        # before its newest one, which stays.
        for is_kept, points in groupby(stored.values(), lambda point: wanted.get(point.key) is point):
            if not is_kept:
                some = list(points)
                removed.append((some[0].key, some[-1].key))
                gone += sum(point.id is not None for point in some)
        come = sum(point.id is not None for point in added)
        return Change(removed=removed, added=added, detached=self._detached, intervals=come - gone)


def point_of(row: Sequence[Any]) -> Point:
    """A breakpoint of a row of the columns POINT."""
    major, minor, id_, url, checksum, size, inserted_ns = row
    return Point(key=Key(major, minor), id=id_, url=url, checksum=checksum, size=size, inserted_ns=inserted_ns)


def loose_row(each: Interval, id_: int) -> Sequence[Any]:
    """An interval that is in no list, as a row of the columns LOOSE."""
    return (id_, each.url, each.checksum, each.size, each.inserted_ns, *each.start, *each.end)

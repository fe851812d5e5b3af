"""Intervals: stored, attached one by one or in bulk, and removed; what each call does within its transaction.

A sequence of attachments is computed in memory: `Stretch`. Intervals in order, behind all that a list has, go a faster
way, by columns: `append`.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from backends.sql.conditions.locks import LockedList, changed, lock_lists, lock_tag, own_content
from backends.sql.conditions.reading import interval
from backends.sql.conditions.session import LOOSE, ConditionsSession
from backends.sql.session import Rows, placeholders
from schemas.conditions.intervals import END, NAME_MOST, URL_MOST, Interval, Intervals, Key, NewInterval, TagStatus
from schemas.conditions.line import Line, Point, interval_of, point_of, rows_of
from schemas.conditions.rules import ConditionsRefused, check_interval, check_takes_interval, in_use, unknown
from schemas.readings import Array

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
        points = [_stored_point(row) for row in rows]
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


def _stored_point(row: Sequence[Any]) -> Point:
    """A breakpoint of a row of the columns POINT."""
    major, minor, id_, url, checksum, size, inserted_ns = row
    return Point(key=Key(major, minor), id=id_, url=url, checksum=checksum, size=size, inserted_ns=inserted_ns)


def loose_row(each: Interval, id_: int) -> Sequence[Any]:
    """An interval that is in no list, as a row of the columns LOOSE."""
    return (id_, each.url, each.checksum, each.size, each.inserted_ns, *each.start, *each.end)


AT_ONCE = 1_000
"""So many ids are compared with one statement."""


async def add_interval(session: ConditionsSession, new: NewInterval) -> Interval:
    """Store an interval that is in no list."""
    check_interval(new)
    (id_,) = await session.take_ids(1)
    made = interval_of(point_of(new, id_, time.time_ns()), new.end)
    await session.insert_loose([loose_row(made, id_)])
    return made


async def attach_interval(session: ConditionsSession, name: str, id_: int) -> Interval:
    """Attach an interval that is in no list to a list."""
    locked = (await lock_lists(session, [name]))[name]
    found = await _lock_loose(session, id_)
    # Nothing is copied for what is refused.
    stretch = Stretch(await session.around(locked.content, found.start, found.end), locked.status)
    stretch.attach(point_of(found, id_, found.inserted_ns), found.end)
    await session.run(f"DELETE FROM {session.loose} WHERE id = $1", id_)
    await own_content(session, locked)
    await _write(session, locked.content, stretch)
    await changed(session, [locked.tag], time.time_ns())
    return replace(found, list=name)


async def insert(session: ConditionsSession, intervals: Mapping[str, Intervals]) -> int:
    """Attach many new intervals."""
    locked = await lock_lists(session, intervals)
    now_ns = time.time_ns()
    for name, many in intervals.items():
        of = locked[name]
        if len(many) and not await append(session, of, many, now_ns, locked.values()):
            stretch = await _replayed(session, name, of, many, now_ns)
            await own_content(session, of, locked.values())
            await _write(session, of.content, stretch)
    await changed(session, (locked[name].tag for name, many in intervals.items() if len(many)), now_ns)
    return sum(map(len, intervals.values()))


async def remove_interval(session: ConditionsSession, tag: str, type_: str, start: Key, end: Key) -> None:
    """Remove the interval of a tag that has exactly this start and end."""
    id_, status = await lock_tag(session, tag)
    check_takes_interval(status)
    found = await session.fetch(
        f"SELECT l.id FROM {session.lists} l JOIN {session.types} y ON y.id = l.type WHERE l.tag = $1 AND y.name = $2",
        *(id_, type_),
    )
    if not found:
        raise unknown("payload_type", type_)
    (of,) = (await lock_lists(session, [f"{type_}_{found[0][0]}"])).values()
    stretch = Stretch(await session.around(of.content, start, end), status)
    if not stretch.remove(start, end):
        raise unknown("major_iov", f"an interval from {tuple(start)} to {tuple(end)}")
    await own_content(session, of)
    await _write(session, of.content, stretch)
    await changed(session, [id_], time.time_ns())


async def _lock_loose(session: ConditionsSession, id_: int) -> Interval:
    found = await session.fetch(f"SELECT {', '.join(LOOSE)} FROM {session.loose} WHERE id = $1 FOR UPDATE", id_)
    if found:
        _, url, checksum, size, inserted_ns, *keys = found[0]
        return Interval(
            id=id_,
            url=url,
            checksum=checksum,
            size=size,
            start=Key(*keys[:2]),
            end=Key(*keys[2:]),
            list=None,
            inserted_ns=inserted_ns,
        )
    raise in_use("piov_id", id_, f"payload list {(await interval(session, id_)).list}")


async def _replayed(session: ConditionsSession, name: str, locked: LockedList, many: Intervals, now_ns: int) -> Stretch:
    """Attach intervals one by one, in memory; in a thread, since they may be many."""
    rows = rows_of(many)
    start, end = min(each.start for each in rows), max(each.end for each in rows)
    stretch = Stretch(await session.around(locked.content, start, end), locked.status)
    await asyncio.to_thread(_replay, stretch, name, rows, now_ns)
    return stretch


def _replay(stretch: Stretch, name: str, rows: Sequence[NewInterval], now_ns: int) -> None:
    for number, new in enumerate(rows):
        try:
            check_interval(new)
            stretch.attach(point_of(new, stretch.take_id(), now_ns), new.end)
        except ConditionsRefused as refusal:
            raise refusal.within(f"{name}[{number}]") from None


async def _write(session: ConditionsSession, content: int, stretch: Stretch) -> None:
    change: Change = stretch.change()
    taken = await session.take_ids(stretch.ids) if stretch.ids else ()
    ids: dict[int | None, int] = {-number: id_ for number, id_ in enumerate(taken, start=1)}
    loose = change.loose(ids)
    # Before anything is deleted: MariaDB would look for the row of each entry of the index that was.
    held = await _held(session, content, [row[0] for row in loose])
    await session.delete_points(content, change.removed)
    await session.insert_points(content, change.rows(ids))
    if held:
        # Who detaches the same from the other list now has to be waited for, or neither of both would store it. This
        # is the last lock that a transaction takes.
        await session.fetch(f"SELECT id FROM {session.detaching} WHERE id = 1 FOR UPDATE")
        held = await _held(session, content, sorted(held))
    await session.insert_loose([row for row in loose if row[0] not in held])
    await session.add_intervals(content, change.intervals)


async def _held(session: ConditionsSession, content: int, ids: Sequence[int]) -> set[int]:
    """Those ids of what a content has detached that another one, of a clone, still has: such are not loose."""
    held: set[int] = set()
    for some in _parts(ids):
        wanted = f"content <> $1 AND id IN ({placeholders(len(some), 2)})"
        found = await session.fetch(f"SELECT DISTINCT id FROM {session.breakpoints} WHERE {wanted}", content, *some)
        held |= {row[0] for row in found}
    return held


def _parts(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    return (ids[first : first + AT_ONCE] for first in range(0, len(ids), AT_ONCE))


ROWS_AT_ONCE = 50_000


async def append(
    session: ConditionsSession, locked: LockedList, many: Intervals, now_ns: int, among: Iterable[LockedList]
) -> bool:
    """Append intervals to a list; False, with nothing done, where that is not all that there is to do."""
    if locked.status not in (None, TagStatus.UNLOCKED) or not _in_order(many):
        return False
    first = Key(*many.starts[0].tolist())
    newest = await session.fetch(
        f"SELECT major, minor, id FROM {session.breakpoints} WHERE content = $1"
        " ORDER BY major DESC, minor DESC LIMIT 1",
        locked.content,
    )
    replaced: list[tuple[Key, Key]] = []
    for major, minor, id_ in newest:
        key = Key(major, minor)
        # What was open until now goes on behind one that is closed.
        goes_on = id_ is not None and Key(*many.ends[0].tolist()) != END
        if key > first or (key == first and id_ is not None) or goes_on:
            return False
        replaced = [(key, key)] if key == first else []
    await own_content(session, locked, among)
    await session.delete_points(locked.content, replaced)
    await _write_behind(session, locked.content, many, now_ns)
    return True


async def _write_behind(session: ConditionsSession, content: int, many: Intervals, now_ns: int) -> None:
    ends, nexts = many.ends, np.empty_like(many.ends)
    nexts[:-1], nexts[-1] = many.starts[1:], tuple(END)
    gaps = ends[less(ends, nexts)]
    ids = await session.take_ids(len(many))
    for begin in range(0, len(many), ROWS_AT_ONCE):
        part = slice(begin, begin + ROWS_AT_ONCE)
        starts, sizes = many.starts[part], many.sizes[part].tolist()
        await session.insert_points(
            content,
            list(
                zip(
                    starts["major"].tolist(),
                    starts["minor"].tolist(),
                    ids[part],
                    many.urls[part].tolist(),
                    many.checksums[part].tolist(),
                    [None if size < 0 else size for size in sizes],
                    [now_ns] * len(sizes),
                    strict=True,
                )
            ),
        )
    await session.insert_points(content, [(*key, None, "", "", None, 0) for key in gaps.tolist()])
    await session.add_intervals(content, len(many))


def _in_order(many: Intervals) -> bool:
    """Whether each begins behind the one before, and ends with it or behind it, so that none is split.

    What is wrong by itself is not in order either: it is found, and said, where they are attached one by one.
    """
    starts, ends = many.starts, many.ends
    numbers = all((keys[name] >= 0).all() for keys in (starts, ends) for name in ("major", "minor"))
    return bool(
        numbers
        and (many.sizes >= -1).all()
        and less(starts, ends).all()
        and less(starts[:-1], starts[1:]).all()
        and not less(ends[1:], ends[:-1]).any()
        and _storable(many.urls, URL_MOST)
        and _storable(many.checksums, NAME_MOST)
    )


def _storable(texts: Array, most: int) -> bool:
    together = "".join(texts)
    return together.isascii() and "\0" not in together and max(map(len, texts), default=0) <= most


def less(one: Array, other: Array) -> Array:
    """Which keys are less than others; KEY_DTYPE both, bool."""
    return np.asarray(
        (one["major"] < other["major"]) | ((one["major"] == other["major"]) & (one["minor"] < other["minor"]))
    )

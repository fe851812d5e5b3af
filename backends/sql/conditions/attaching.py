"""Intervals: stored, attached one by one or in bulk, and removed; what each call does within its transaction."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from backends.sql.conditions.appending import append
from backends.sql.conditions.locks import LockedList, changed, lock_lists, lock_tag, own_content
from backends.sql.conditions.reading import interval
from backends.sql.conditions.session import LOOSE, ConditionsSession
from backends.sql.conditions.stretch import Change, Stretch, loose_row
from backends.sql.session import placeholders
from schemas.conditions.intervals import Interval, Intervals, Key, NewInterval
from schemas.conditions.line import interval_of, point_of, rows_of
from schemas.conditions.rules import ConditionsRefused, check_interval, check_takes_interval, in_use, unknown

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

"""What orders make of the intervals of lists: new segments, and the changes that refer to them; all within a turn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import uuid4

import numpy as np
from bson import Int64

from backends.mongodb.conditions.documents import NO_SEGMENTS, StoredList, loose_document
from backends.mongodb.conditions.reading import read_lists, read_segments
from backends.mongodb.conditions.segments import Document, directory_of, ids_in, position, segments_of
from backends.mongodb.conditions.session import COUNTERS, LOOSE, SEGMENTS, TAGS, Session
from backends.mongodb.conditions.turns import Change, Turn, edited, inserted
from schemas.conditions.intervals import Interval, Key, TagStatus
from schemas.conditions.line import Line

BLOCK = 100
"""Ids of intervals that a store takes at once; what it does not need is left out."""
T = TypeVar("T")


class Ids:
    """Ids that are counted in the database, in blocks.

    A counter gets a mark with its first id. A block is given away only while its counter is there: the schema may have
    been dropped, by another process, and its ids counted from 1 again.
    """

    def __init__(self) -> None:
        self._free: dict[str, range] = {}
        self._marks: dict[str, str] = {}

    async def reserve(self, session: Session, kind: str, count: int, block: int = 1) -> None:
        """Take ids in a turn, so many that `count` can be given."""
        found = await session.one(COUNTERS, kind) or {}
        mark = found.get("mark")
        if mark is not None and mark == self._marks.get(kind) and len(self._free[kind]) >= count:
            return
        first, taken = int(found.get("next", 1)), max(count, block)
        self._marks[kind] = mark or uuid4().hex
        after = {"$set": {"next": Int64(first + taken), "mark": self._marks[kind]}}
        await session.update(COUNTERS, [{"q": {"_id": kind}, "u": after, "upsert": True}])
        self._free[kind] = range(first, first + taken)

    async def take(self, session: Session, kind: str) -> int:
        """Take one in a turn."""
        await self.reserve(session, kind, 1)
        return self.next(kind)

    def next(self, kind: str) -> int:
        """Give one that was reserved."""
        free = self._free[kind]
        self._free[kind] = free[1:]
        return free[0]


async def edit(
    turn: Turn, each: StoredList, first: Key, last: Key, change: Callable[[Line], T], *, to_end: bool = False
) -> tuple[StoredList, T]:
    """Change the breakpoints of a list between two keys; return the list as it is then, and what `change` returned.

    The segments are written, and nothing refers to them yet.

    to_end: it needs all that comes behind, too.
    """
    directory = each.directory
    lower = max(0, position(directory, first, "left") - 1)
    upper = len(directory) if to_end else max(lower, position(directory, last, "right"))
    (segments,) = await read_segments(turn.session, [(each, ids_in(directory[lower:upper]))])
    line = Line([point for segment in segments for point in segment.points()])
    before = line.count
    returned = change(line)
    made = segments_of(line.points, is_end=upper == len(directory))
    await turn.session.insert(SEGMENTS, made)
    await turn.keep()
    changed = np.concatenate([directory[:lower], directory_of(made), directory[upper:]])
    return replace(each, directory=changed, intervals=each.intervals + line.count - before), returned


def needs_end(each: StoredList) -> bool:
    """Whether the rules look at the end of the list."""
    return each.status is TagStatus.LOCKED


async def changes_of(
    turn: Turn, changed: Sequence[StoredList], detached: Mapping[str, Sequence[Interval]], now_ns: int
) -> list[Change]:
    """The changes that make lists what they are in `changed`, and keep what each detached unless another list has it.

    detached: by name of the list.
    """
    by_container: dict[tuple[str, str, int], Document] = {}
    for each in changed:
        by_container.setdefault((*each.container, each.revision), {}).update(each.fields())
    changes = []
    for (collection, id_, revision), fields in by_container.items():
        updated = {"updated_ns": Int64(now_ns)} if collection == TAGS else {}
        changes.append(edited(collection, id_, revision, {**fields, **updated}))
    if any(detached.values()):
        by_name = {each.name: each for each in changed}
        lists = [by_name.get(each.name, each) for each in await read_lists(turn.session, directories=True)]
        loose: dict[int, Interval] = {}
        for name, intervals in detached.items():
            held = await _held(turn, [each.id for each in intervals], [each for each in lists if each.name != name])
            loose |= {each.id: each for each in intervals if each.id not in held}
        changes += [inserted(LOOSE, loose_document(each)) for each in loose.values()]
    return changes


async def _held(turn: Turn, ids: Sequence[int], lists: Sequence[StoredList]) -> set[int]:
    """Which intervals one of some lists has."""
    wanted = np.sort(np.array(ids, np.int64))
    directory = np.concatenate([NO_SEGMENTS, *(each.directory for each in lists)])
    first, after = np.searchsorted(wanted, directory["least_id"]), np.searchsorted(wanted, directory["greatest_id"] + 1)
    segments = await turn.session.segments(ids_in(directory[first < after]))
    held = [each.numbers["id"][np.isin(each.numbers["id"], wanted)] for each in segments.values()]
    return {id_ for some in held for id_ in some.tolist()}

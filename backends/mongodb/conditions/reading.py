"""What is stored, without a turn: segments are never changed, so that a document with directories is of one moment.

What an order moves between two documents is found in one of them after a second look. A segment is gone only where its
directory was read long ago (`sweeping`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from bson import ObjectId

from backends.base import StoreBusy
from backends.mongodb.conditions.documents import (
    NO_SEGMENTS,
    WITHOUT_DIRECTORIES,
    StoredList,
    fields_of,
    list_id_of,
    list_of,
    lists_of,
    loose_of,
    padded,
)
from backends.mongodb.conditions.segments import Document, Segment, ids_in, joined, key_at, position
from backends.mongodb.conditions.session import LISTS, LOOSE, TAGS, Session
from schemas.conditions.intervals import END, Interval, Intervals, Key, ValidAt
from schemas.conditions.line import interval_of
from schemas.conditions.rules import unknown
from schemas.readings import Array

LOOKS = 10


async def read_tag(session: Session, name: str, projection: dict[str, int] | None = None) -> Document:
    """The document of a tag. Raises ConditionsRefused where there is none."""
    found = await session.one(TAGS, name, projection)
    if found is None:
        raise unknown("global_tag", name)
    return found


async def read_list(session: Session, name: str) -> StoredList:
    """A list, with its directory. Raises ConditionsRefused where there is none."""
    id_ = list_id_of(name)
    if id_ is None:
        raise unknown("payload_list", name)
    about = {"status": 1, "revision": 1, **dict.fromkeys(fields_of(id_), 1)}
    for _ in range(LOOKS):
        document = await session.one(LISTS, padded(id_))
        if document is None:
            break
        tag = None if document["tag"] is None else await session.one(TAGS, document["tag"], about)
        if tag is not None:
            tag = {"lists": {}, **tag}
        found = list_of(document, tag)
        if found is None:
            continue
        if found.name == name:
            return found
        break
    raise unknown("payload_list", name)


async def read_lists(session: Session, *, directories: bool = False) -> list[StoredList]:
    """All lists, by id; with their directories only where asked."""
    left_out = None if directories else WITHOUT_DIRECTORIES
    for _ in range(LOOKS):
        documents = await session.all(LISTS, {}, left_out)
        tags = {each["_id"]: each for each in await session.all(TAGS, {}, left_out)}
        found = [list_of(each, tags.get(each["tag"])) for each in documents]
        if all(found):
            break
    # One whose tag does not have it after so many looks is of an order that is not applied yet, or only in part.
    return [each for each in found if each is not None]


async def read_segments(
    session: Session, lists: Sequence[tuple[StoredList, Sequence[ObjectId]]]
) -> list[list[Segment]]:
    """Some segments of each of some lists.

    Raises:
        StoreBusy: one is gone.
    """
    segments = await session.segments([id_ for _, ids in lists for id_ in ids])
    try:
        return [[segments[id_] for id_ in ids] for _, ids in lists]
    except KeyError:
        raise StoreBusy("what was to be read was changed meanwhile") from None


async def read_intervals(session: Session, each: StoredList) -> Intervals:
    """All intervals of a list."""
    (segments,) = await read_segments(session, [(each, ids_in(each.directory))])
    return joined(segments)


async def read_between(session: Session, each: StoredList, first: Key, last: Key) -> Intervals:
    """Intervals of a list that hold a key from `first` to `last`; only segments that have them are read."""
    begin, after = max(0, position(each.directory, first, "right") - 1), position(each.directory, last, "right")
    (segments,) = await read_segments(session, [(each, ids_in(each.directory[begin:after]))])
    return joined(segments, key_at(each.directory, after)).between(first, last)


async def read_valid(session: Session, tag: Document, key: Key) -> list[ValidAt]:
    """What is valid at a key, by type; of each list one segment is read."""
    wanted: list[tuple[StoredList, int]] = []
    for each in lists_of(tag):
        at = position(each.directory, key, "right") - 1
        if at >= 0 and key != END:
            wanted.append((each, at))
    parts = [(each, ids_in(each.directory[at : at + 1])) for each, at in wanted]
    valid = []
    for (each, at), (segment,) in zip(wanted, await read_segments(session, parts), strict=True):
        found = interval_in(each, at, segment, position(segment.numbers, key, "right") - 1)
        if found is not None:
            valid.append(ValidAt(type=each.type, interval=found))
    return valid


def interval_in(each: StoredList, at: int, segment: Segment, place: int) -> Interval | None:
    """The interval at a place of a segment, the one at `at` in the list's directory; None at a gap."""
    point = segment.point(place)
    if point.id is None:
        return None
    is_last = place + 1 == len(segment.numbers)
    end = key_at(each.directory, at + 1) if is_last else segment.key(place + 1)
    return replace(interval_of(point, end), list=each.name)


async def find_interval(session: Session, id_: int) -> Interval:
    """One interval, in a list or not. Raises ConditionsRefused where there is none."""
    if 0 < id_ < 2**63:
        for _ in range(2):
            document = await session.one(LOOSE, padded(id_))
            if document is not None:
                return loose_of(document)
            lists = await read_lists(session, directories=True)
            found = await find_in_lists(session, lists, id_ - 1, 1, last_id=id_)
            if found:
                return found[0]
    raise unknown("piov_id", id_)


async def find_intervals(session: Session, after_id: int, most: int) -> list[Interval]:
    """Intervals with id > after_id, by id, `most` at most, in lists or not."""
    if most <= 0 or after_id >= 2**63 - 1:
        return []
    wanted = {"_id": {"$gt": padded(max(0, after_id))}}
    loose = {int(each["_id"]): loose_of(each) for each in await session.all(LOOSE, wanted, most=most)}
    lists = await read_lists(session, directories=True)
    held = {each.id: each for each in await find_in_lists(session, lists, after_id, most)}
    every = {**loose, **held}
    return [every[id_] for id_ in sorted(every)[:most]]


async def find_page(session: Session, first: int, most: int, *, descending: bool) -> tuple[int, list[Interval]]:
    """How many intervals there are, in lists or not; and some of them, by id."""
    loose = [int(each["_id"]) for each in await session.all(LOOSE, {}, {"_id": 1})]
    ids = await _ids_of(session, await read_lists(session, directories=True))
    every = np.unique(np.concatenate([np.array(loose, np.int64), *ids]))
    wanted = (every[::-1] if descending else every)[first : first + most]
    if not len(wanted):
        return len(every), []
    found = await find_intervals(session, int(wanted.min()) - 1, len(wanted))
    return len(every), found[::-1] if descending else found


async def _ids_of(session: Session, lists: Sequence[StoredList]) -> list[Array]:
    """Ids of the intervals in lists, int64: of one that several have, several times."""
    found: list[Array] = []
    unknown_ids = [NO_SEGMENTS]
    for each in lists:
        directory = each.directory
        # No list has an interval twice: without gaps, as many breakpoints as numbers from one id to another have these.
        has_gaps = directory["points"].sum() != each.intervals
        is_full = directory["greatest_id"] - directory["least_id"] + 1 == directory["points"]
        is_known = is_full & (not has_gaps)
        found += [np.arange(one["least_id"], one["greatest_id"] + 1) for one in directory[is_known]]
        unknown_ids.append(directory[~is_known])
    read = await session.segments(ids_in(np.concatenate(unknown_ids)))
    return [*found, *(each.numbers["id"][each.numbers["id"] > 0] for each in read.values())]


async def find_in_lists(
    session: Session, lists: Sequence[StoredList], after_id: int, most: int, *, last_id: int = 2**63 - 1
) -> list[Interval]:
    """Intervals of lists with after_id < id <= last_id, by id, each as the first of `lists` that has it has it."""
    entries = [
        (int(each.directory["least_id"][at]), k, int(at))
        for k, each in enumerate(lists)
        for at in np.flatnonzero((each.directory["greatest_id"] > after_id) & (each.directory["least_id"] <= last_id))
    ]
    found: dict[int, tuple[int, Interval]] = {}
    known: dict[ObjectId, Segment] = {}
    for least_id, k, at in sorted(entries):
        if len(found) >= most and least_id > sorted(found)[most - 1]:
            break
        each = lists[k]
        (segment_id,) = ids_in(each.directory[at : at + 1])
        if segment_id not in known:
            ((known[segment_id],),) = await read_segments(session, [(each, [segment_id])])
        ids = known[segment_id].numbers["id"]
        for place in np.flatnonzero((ids > after_id) & (ids <= last_id)).tolist():
            id_ = int(ids[place])
            if id_ not in found or found[id_][0] > k:
                interval = interval_in(each, at, known[segment_id], place)
                assert interval is not None
                found[id_] = k, interval
    return [found[id_][1] for id_ in sorted(found)[:most]]

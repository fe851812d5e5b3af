"""The fast way of `insert`: intervals in order, behind all that a list has, by columns."""

from collections.abc import Iterable

import numpy as np

from backends.sql.conditions.locks import LockedList, own_content
from backends.sql.conditions.session import ConditionsSession
from schemas.conditions.intervals import END, NAME_MOST, URL_MOST, Intervals, Key, TagStatus
from schemas.readings import Array

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
    await _write(session, locked.content, many, now_ns)
    return True


async def _write(session: ConditionsSession, content: int, many: Intervals, now_ns: int) -> None:
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

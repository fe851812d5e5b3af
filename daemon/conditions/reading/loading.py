"""Takes a tag from a store into arrays, in short steps: requests are answered meanwhile."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np

from daemon.conditions.contract import flat_rows
from daemon.conditions.reading.content import TagContent, breakpoints_of
from schemas.conditions.intervals import ListContent, TagRevision
from schemas.readings import Array

STEP = 500
"""Rows that are rendered in one go: half a millisecond."""

BYTES_A_BREAKPOINT = 26
"""Of `Breakpoints`: two keys of eight bytes, two numbers of four, and a share of a state."""


class TooLarge(Exception):
    """The tag takes more memory than it may."""


async def load(content: AsyncIterator[TagRevision | ListContent], most_bytes: int) -> TagContent:
    """Make the arrays of a tag.

    Args:
        content: of the tag, as `ConditionsStore.content` gives it.
        most_bytes: that it may take.

    Raises:
        TooLarge: it takes more; found out while it is read, so that no more than this is ever held.
    """
    revision: TagRevision | None = None
    lists: list[tuple[Array, Array]] = []
    pieces: list[bytes] = []
    bounds: list[Array] = []
    taken = 0
    async for part in content:
        if isinstance(part, TagRevision):
            revision = part
            continue
        rendered = await _rendered(part)
        lists.append((part.intervals.starts, part.intervals.ends))
        pieces.append(b"".join(rendered))
        bounds.append(np.cumsum([0, *map(len, rendered)]))
        # At most two breakpoints an interval, and where its row begins and ends.
        taken += len(pieces[-1]) + len(rendered) * (2 * BYTES_A_BREAKPOINT + 16)
        if taken > most_bytes:
            raise TooLarge
    assert revision is not None, "the first part of a content is its revision"
    # numpy sorts without the interpreter's lock.
    breakpoints = await asyncio.to_thread(breakpoints_of, lists)
    empty = np.zeros(0, np.int64)
    return TagContent(
        revision=revision,
        breakpoints=breakpoints,
        pieces=pieces,
        begins=np.concatenate([each[:-1] for each in bounds]) if bounds else empty,
        ends=np.concatenate([each[1:] for each in bounds]) if bounds else empty,
    )


async def _rendered(part: ListContent) -> list[bytes]:
    rendered: list[bytes] = []
    for begin in range(0, len(part.intervals), STEP):
        rendered += flat_rows(part.type, part.intervals, slice(begin, begin + STEP))
        await asyncio.sleep(0)
    return rendered

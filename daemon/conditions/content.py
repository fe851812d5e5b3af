"""All that one tag answers, in arrays: an answer is one binary search and a short replay.

The breakpoints of all lists of the tag are put in the order of their keys. Each says that in one list another row is
valid from its key on, or none. What is valid at a key is what all breakpoints up to there have left; so that they need
not all be replayed, the whole state is kept after every `EVERY` of them. A search in each list would take thirty times
as long with 200 lists.
"""

import asyncio
import gzip
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import numpy as np

from daemon.conditions.contract import flat_rows
from schemas.conditions.intervals import END, Key, ListContent, TagRevision
from schemas.readings import Array

EVERY = 256
"""Breakpoints between two states that are kept: a replay takes a few microseconds, a state four bytes a list."""

NOTHING = -1
"""The row of a list in which nothing is valid."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Breakpoints:
    """All breakpoints of a tag, in the order of their keys; n of them.

    majors, minors: int64 (n), the keys. lists: int32 (n), which list. rows: int32 (n), which row of the tag is valid in
    it from there on, or NOTHING. states: int32 (n // EVERY + 1, lists), the rows that are valid after the first
    i * EVERY breakpoints.
    """

    majors: Array
    minors: Array
    lists: Array
    rows: Array
    states: Array

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        return sum(each.nbytes for each in (self.majors, self.minors, self.lists, self.rows, self.states))

    def position(self, key: Key) -> int:
        """How many breakpoints are at a key or before it."""
        first, last = np.searchsorted(self.majors, key.major, "left"), np.searchsorted(self.majors, key.major, "right")
        return int(first + np.searchsorted(self.minors[first:last], key.minor, "right"))

    def state(self, position: int) -> Array:
        """The row that is valid in each list after so many breakpoints, or NOTHING: int32 (lists)."""
        kept = position // EVERY
        state: Array = self.states[kept].copy()
        # Of a list that is there several times the last one holds: numpy assigns in order.
        state[self.lists[kept * EVERY : position]] = self.rows[kept * EVERY : position]
        return state

    def key(self, position: int) -> Key:
        """The key from which on the answer after so many breakpoints holds; up to that of `position + 1`."""
        if position == 0:
            return Key(0, 0)
        if position > len(self.majors):  # nothing ends: there is no list
            return END
        return Key(int(self.majors[position - 1]), int(self.minors[position - 1]))


def breakpoints_of(lists: Sequence[tuple[Array, Array]]) -> Breakpoints:
    """Put the breakpoints of the lists of a tag in order; their rows are numbered through, list after list.

    lists: starts and ends of the intervals of each, KEY_DTYPE, in order.
    """
    made = [_of_list(number, starts, ends) for number, (starts, ends) in enumerate(lists)]
    bases = np.cumsum([0, *(len(starts) for starts, _ in lists)])
    majors, minors, numbers, rows = (
        np.concatenate([each[i] for each in made]) if made else np.zeros(0, np.int64) for i in range(4)
    )
    rows = np.where(rows == NOTHING, NOTHING, rows + bases[numbers]).astype(np.int32)
    order = np.lexsort((minors, majors))
    ordered = [each[order] for each in (majors, minors, numbers.astype(np.int32), rows)]
    return Breakpoints(
        majors=ordered[0],
        minors=ordered[1],
        lists=ordered[2],
        rows=ordered[3],
        states=_states(ordered[2], ordered[3], len(lists)),
    )


def _of_list(number: int, starts: Array, ends: Array) -> tuple[Array, Array, Array, Array]:
    """Breakpoints of one list, int64 each: majors, minors, number of the list, row within it or NOTHING."""
    goes_on = np.zeros(len(starts), bool)
    goes_on[:-1] = ends[:-1] == starts[1:]
    gaps = ends[~goes_on]  # of an open interval, too: nothing is valid at END
    majors = np.concatenate([starts["major"], gaps["major"]])
    minors = np.concatenate([starts["minor"], gaps["minor"]])
    rows = np.concatenate([np.arange(len(starts)), np.full(len(gaps), NOTHING)])
    return majors, minors, np.full(len(rows), number), rows


def _states(lists: Array, rows: Array, count: int) -> Array:
    states = np.full((len(lists) // EVERY + 1, count), NOTHING, np.int32)
    for i in range(1, len(states)):
        states[i] = states[i - 1]
        within = slice((i - 1) * EVERY, i * EVERY)
        states[i, lists[within]] = rows[within]
    return states


@dataclass(frozen=True, kw_only=True, eq=False)
class TagContent:
    """A tag in memory, as it was at one revision.

    revision: of the tag. pieces: for each list the rows of its intervals as the contract renders them, one behind the
    other. begins, ends: int64 (rows of the tag), where in the pieces of its list a row is.
    """

    revision: TagRevision
    breakpoints: Breakpoints
    pieces: Sequence[bytes]
    begins: Array
    ends: Array

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.breakpoints.nbytes + self.begins.nbytes + self.ends.nbytes + sum(map(len, self.pieces))

    @property
    def intervals(self) -> int:
        """How many it has."""
        return len(self.begins)

    def body(self, position: int) -> bytes:
        """The answer after so many breakpoints, as JSON: an array of rows, in the order of the lists."""
        state = self.breakpoints.state(position)
        lists = np.flatnonzero(state != NOTHING)
        rows = state[lists]
        begins, ends = self.begins[rows].tolist(), self.ends[rows].tolist()
        pieces = self.pieces
        found = [pieces[number][begin:end] for number, begin, end in zip(lists.tolist(), begins, ends, strict=True)]
        return b"[%b]" % b",".join(found)


# --- making the arrays of a tag --------------------------------------------------------------------------------------

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


# --- tags in memory --------------------------------------------------------------------------------------------------

LEAST_GZIP = 1024
"""Bytes of an answer below which compressing it saves nothing."""

BODIES_SHARE = 8
"""One part in so many of the memory is for whole answers."""

IN_USE_S = 10.0
"""A tag that was asked within so long makes no room for another: two that do not fit together would be loaded by turns,
for every request."""


@dataclass(slots=True)
class Body:
    """An answer: JSON, and the same compressed once somebody wanted it so."""

    plain: bytes
    packed: bytes | None = None

    @property
    def nbytes(self) -> int:
        """What it takes, or will once it is compressed: JSON becomes a quarter at most; and the objects around it."""
        return len(self.plain) + len(self.plain) // 4 + 300

    def compressed(self) -> bytes | None:
        """It, compressed; None where that saves nothing."""
        if self.packed is None and len(self.plain) >= LEAST_GZIP:
            self.packed = gzip.compress(self.plain, 6, mtime=0)
        return self.packed


BodyKey = tuple[int, int, int, int, bool]
"""Id and revision of a tag, when it became of that, position within it, and whether rows are objects."""


class Bodies:
    """Answers that were asked last, up to `most_bytes` of them."""

    def __init__(self, most_bytes: int) -> None:
        self.nbytes = 0
        self._most = most_bytes
        self._bodies: OrderedDict[BodyKey, Body] = OrderedDict()

    def __len__(self) -> int:
        return len(self._bodies)

    def get(self, key: BodyKey) -> Body | None:
        """An answer that was kept."""
        found = self._bodies.get(key)
        if found is None:
            return None
        self._bodies.move_to_end(key)
        return found

    def keep(self, key: BodyKey, body: Body) -> None:
        """Keep an answer that is not kept yet; those that were not asked for longest go."""
        self._bodies[key] = body
        self.nbytes += body.nbytes
        while self.nbytes > self._most:
            self.nbytes -= self._bodies.popitem(last=False)[1].nbytes


class KeptTags:
    """Tags in memory by name, the one that was asked last at the end.

    Args:
        most_bytes: of all of them.
        clock: seconds that only grow.
    """

    def __init__(self, most_bytes: int, clock: Callable[[], float]) -> None:
        self.most_bytes = most_bytes
        self._clock = clock
        self._tags: OrderedDict[str, tuple[TagContent, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tags)

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        return sum(content.nbytes for content, _ in self._tags.values())

    @property
    def intervals(self) -> int:
        """How many they have."""
        return sum(content.intervals for content, _ in self._tags.values())

    def get(self, name: str) -> TagContent | None:
        """A tag, which is asked now."""
        found = self._tags.get(name)
        if found is None:
            return None
        self._tags[name] = found[0], self._clock()
        self._tags.move_to_end(name)
        return found[0]

    def contents(self) -> list[TagContent]:
        """All of them."""
        return [content for content, _ in self._tags.values()]

    def forget(self, name: str) -> None:
        """What is in memory of a tag is not true any more."""
        self._tags.pop(name, None)

    def room(self, name: str) -> int:
        """Bytes that a tag may take: what is free, and what others take that nobody asks now."""
        now = self._clock()
        used = (c.nbytes for other, (c, asked) in self._tags.items() if other != name and now - asked < IN_USE_S)
        return self.most_bytes - sum(used)

    def keep(self, name: str, content: TagContent) -> None:
        """Keep a tag; those that were not asked for longest go until it fits."""
        self._tags.pop(name, None)
        while self._tags and self.nbytes + content.nbytes > self.most_bytes:
            self._tags.popitem(last=False)
        self._tags[name] = content, self._clock()

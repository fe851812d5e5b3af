"""All that one tag answers, in arrays: an answer is one binary search and a short replay.

The breakpoints of all lists of the tag are put in the order of their keys. Each says that in one list another row is
valid from its key on, or none. What is valid at a key is what all breakpoints up to there have left; so that they need
not all be replayed, the whole state is kept after every `EVERY` of them. A search in each list would take thirty times
as long with 200 lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schemas.conditions.intervals import END, Key, TagRevision
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

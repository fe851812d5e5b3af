"""Removes segments that nothing refers to: those that a change replaced, and those of orders that never happened.

Only an order refers to segments, and within its turn. A segment that no document refers to at a moment within somebody
else's turn was therefore written by an order that is over, or whose turn was taken over and that changes nothing any
more; nobody will ever refer to it. But who reads may have read a directory before. So it is removed when it was found
without a reference GRACE_S ago, far longer than anybody reads, and still has none.
"""

import time

from bson import ObjectId

from backends.mongodb.conditions.reading import read_lists
from backends.mongodb.conditions.segments import ids_in
from backends.mongodb.conditions.session import SEGMENTS
from backends.mongodb.conditions.turns import Turn

EVERY_S = 3600.0
GRACE_S = 600.0
AT_ONCE = 1000
"""Segments that one command removes."""


class Sweeper:
    """Sweeps now and then; what it found unreferenced it remembers until then."""

    def __init__(self) -> None:
        self._found: dict[ObjectId, float] = {}
        self._next_s = time.monotonic() + GRACE_S

    @property
    def is_due(self) -> bool:
        """Whether to sweep."""
        return time.monotonic() >= self._next_s

    async def sweep(self, turn: Turn) -> int:
        """Remove what was without a reference for long enough; return how many segments."""
        session, now_s = turn.session, time.monotonic()
        lists = await read_lists(session, directories=True)
        referred = {id_ for each in lists for id_ in ids_in(each.directory)}
        unreferenced = set(await session.segment_ids()) - referred
        self._found = {id_: self._found.get(id_, now_s) for id_ in unreferenced}
        old = [id_ for id_, since_s in self._found.items() if now_s - since_s >= GRACE_S]
        for first in range(0, len(old), AT_ONCE):
            await session.delete(SEGMENTS, [{"_id": id_} for id_ in old[first : first + AT_ONCE]])
            await turn.keep()
        for id_ in old:
            del self._found[id_]
        self._next_s = now_s + (GRACE_S if self._found else EVERY_S)
        return len(old)

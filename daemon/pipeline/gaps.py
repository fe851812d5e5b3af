"""Gaps: the ledger of the database says of each trigger how many numbers right before it were skipped.

Where a number that was skipped is placed, the gap that it lies in is divided: what lies below it goes to its own row,
what lies above it stays with the row above. Assembly does so for triggers that it remembers, this for all others. Of
those that it remembers it may have forgotten the row above: where the database calls them skipped, they are not.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np

from schemas.batch import ClosedBlock
from schemas.readings import Array


async def with_gaps(
    block: ClosedBlock, within: ClosedBlock, ask: Callable[[int, int], Awaitable[Array]]
) -> ClosedBlock:
    """What was placed of one run, with as many skipped numbers as there are now before its triggers and those above.

    Args:
        block: what was placed; `skipped` of its rows is -1 where it is not known yet, and filled in place.
        within: the block that it is committed with, whose rows are newer than those of the database.
        ask: what the database has right below and right above a trigger of a run.
    """
    gaps, run = _Gaps(block, within), int(block.ledger["run"][0])
    for k, (trigger, skipped) in enumerate(block.ledger[["trigger", "skipped"]].tolist()):
        if not gaps.is_above_known(trigger):
            gaps.look_from(trigger, await ask(run, trigger))
        before = gaps.divide(trigger)
        if skipped < 0:
            block.ledger["skipped"][k] = before
    return gaps.closed()


class _Gaps:
    """The ledger rows around triggers that are placed, which are gone through from below."""

    def __init__(self, block: ClosedBlock, within: ClosedBlock) -> None:
        self._block = block
        run = block.ledger["run"][0]
        rows = np.concatenate([within.ledger, within.revised, block.revised])
        self._newest = {int(row["trigger"]): row.copy() for row in rows[rows["run"] == run]}
        self._changed: dict[int, Array] = {}
        self._above: Array | None = None
        self._below: int | None = None

    def is_above_known(self, trigger: int) -> bool:
        """Whether the row above a trigger is that of the one before; else the database has to be asked."""
        return self._above is not None and trigger < int(self._above["trigger"])

    def look_from(self, trigger: int, neighbours: Array) -> None:
        """These rows the database has right below and right above a trigger."""
        numbers = [*neighbours["trigger"].tolist(), *self._newest, *([] if self._below is None else [self._below])]
        self._below = max((number for number in numbers if number < trigger), default=None)
        above = {int(row["trigger"]): row.copy() for row in neighbours if row["trigger"] > trigger}
        above |= {number: row for number, row in self._newest.items() if number > trigger}
        self._above = above[min(above)] if above else None

    def divide(self, trigger: int) -> int:
        """Take a number that was skipped out of its gap; return how many lie below it in there."""
        above, below, self._below = self._above, self._below, trigger
        if above is None:
            return 0 if below is None else trigger - below - 1
        before = trigger - int(above["trigger"] - above["skipped"])
        if before < 0 and below is not None:
            return 0
        above["skipped"] = above["trigger"] - trigger - 1
        self._changed[int(above["trigger"])] = above
        return max(0, before)

    def closed(self) -> ClosedBlock:
        """What was placed, with the rows above."""
        if not self._changed:
            return self._block
        revised = self._block.revised.copy()
        for k, number in enumerate(revised["trigger"].tolist()):
            revised[k] = self._changed.pop(number, revised[k])
        more = np.array(list(self._changed.values()), revised.dtype)
        return replace(self._block, revised=np.concatenate([revised, more]))

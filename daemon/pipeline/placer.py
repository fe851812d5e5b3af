"""The placer: readings set aside as older than the window go where the ledger of the database says."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np

from backends.columns.filling import readings_in
from daemon.core.outside import Clock
from daemon.pipeline.backlog import Waiting
from daemon.pipeline.closed_blocks import merge
from daemon.pipeline.gaps import with_gaps
from daemon.pipeline.placing import TRIGGERS_AT_ONCE, Placed, also_ambiguous, place, to_place, with_rows_of, without
from schemas.batch import ClosedBlock
from schemas.ledger import own_rows
from schemas.queries import LedgerNeighbours, LedgerRows
from schemas.readings import Array, InstrumentGroup, join

Ask = Callable[[LedgerRows | LedgerNeighbours], Awaitable[Array]]


class Placer:
    """Places the readings of one group.

    ask: asks the store, for as long as it takes. note: told run and triggers, ascending, that the database is to have;
    returns how many numbers were skipped right before each, -1 where that is not known.
    """

    def __init__(self, group: InstrumentGroup, clock: Clock, *, ask: Ask, note: Callable[[int, Array], Array]) -> None:
        self._group = group
        self._clock = clock
        self._ask = ask
        self._note_placed = note

    async def with_placed(self, last: Waiting) -> Waiting:
        """A block with what of it is set aside for a known run in its triggers, late ones included."""
        chosen = to_place(last.block)
        if last.block.aside is None or not chosen.any():
            return last
        readings, runs = last.block.aside.readings[chosen], last.block.aside.run[chosen]
        parts, doubles, odd = [without(last.block, chosen)], 0, [readings[:0]]
        for run in np.unique(runs).tolist():
            block, there, others = await self._place(run, readings[runs == run], last.block)
            parts.append(block)
            doubles += there
            odd.append(others)
        parts[0] = also_ambiguous(parts[0], join(odd))
        block = merge(parts)
        placed = Placed(
            # The others were late, and count as set aside where they are that now.
            aside=len(readings) - sum(map(len, odd)) - (last.readings - readings_in(last.block)),
            doubles=doubles,
            triggers=block.triggers - last.block.triggers,
            readings=readings_in(block) - last.readings,
        )
        return replace(last, block=block, readings=readings_in(block), placed=placed)

    async def _place(self, run: int, readings: Array, within: ClosedBlock) -> tuple[ClosedBlock, int, Array]:
        """Place readings of one run; within: the block that they are committed with, whose own rows are newer."""
        triggers = np.unique(readings["trigger"])
        rows = []
        for start in range(0, len(triggers), TRIGGERS_AT_ONCE):
            some = tuple(triggers[start : start + TRIGGERS_AT_ONCE].tolist())
            rows.append(await self._ask(LedgerRows(group=self._group, run=run, triggers=some)))
        known = with_rows_of(within, run, triggers, own_rows(rows, self._group.size))
        block, doubles, odd = place(self._group, run, readings, known, self._clock.now())
        if block.triggers:
            block.ledger["skipped"] = self._note_placed(run, block.ledger["trigger"])
            block = await with_gaps(block, within, self._neighbours)
        return block, doubles, odd

    async def _neighbours(self, run: int, trigger: int) -> Array:
        rows = await self._ask(LedgerNeighbours(group=self._group, run=run, trigger=trigger))
        return own_rows([rows], self._group.size)


def apart(blocks: list[Waiting]) -> list[list[Waiting]]:
    """Blocks to commit together: one with readings to be placed is alone.

    What it finds in the ledger must not lack what comes before it.
    """
    parts: list[list[Waiting]] = [[]]
    for waiting in blocks:
        if to_place(waiting.block).any():
            parts += [[waiting], []]
        else:
            parts[-1].append(waiting)
    return [part for part in parts if part]

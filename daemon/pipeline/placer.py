"""The placer: readings set aside as older than the window, or as doubtful, go where the database says."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from backends.columns.filling import readings_in
from daemon.core.outside import Clock
from daemon.pipeline.assembly.outcomes import ReadingSet
from daemon.pipeline.backlog import Waiting
from daemon.pipeline.closed_blocks import merge
from daemon.pipeline.dropped import DroppedPeriods
from daemon.pipeline.placing import (
    TRIGGERS_AT_ONCE,
    Placed,
    also_set_aside,
    are_dropped,
    are_vague,
    comparable,
    place,
    readings_of_run,
    to_place,
    with_counts,
    with_letters,
    with_rows_of,
    without,
)
from schemas.batch import Aside, ClosedBlock
from schemas.ledger import ledger_dtype, own_rows
from schemas.queries import LedgerRows, TriggersReadings
from schemas.readings import Array, InstrumentGroup, join
from schemas.states import AsideReason

BLOCKS_TOGETHER = 64
"""Blocks committed together at most where one has readings to be placed: each of these looks through those before."""

READINGS_TOGETHER = 8192
"""The same of readings to be placed: a database has little time for a transaction."""

PLACE = ["trigger", "instrument"]
"""Where a reading of a run belongs."""


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What became of readings of one run: the block to commit, which are doubles, and which are left, by the reason.

    double, and each of `left`: bool, shape (n,). Left are those of which nothing proves that they belong there, those
    where another reading is, and those of a period that was dropped.
    """

    block: ClosedBlock
    double: Array
    left: Mapping[AsideReason, Array]


Asked = LedgerRows | TriggersReadings
Ask = Callable[[Asked], Awaitable[Array]]
ReadRejected = Callable[[int, Array], Awaitable[list[ClosedBlock]]]
NotePlaced = Callable[[int, Array], int]


class Placer:
    """Places the readings of one group.

    ask: asks the store, for as long as it takes. rejected: reads the dead letters of triggers of a run, in the order in
    which they were kept. note: called with a run and triggers, ascending, that are new to the database; returns the
    epoch of the run, 0 where it is not known. dropped: what of the group is stored no more.
    """

    def __init__(
        self,
        group: InstrumentGroup,
        clock: Clock,
        *,
        ask: Ask,
        rejected: ReadRejected,
        note: NotePlaced,
        dropped: DroppedPeriods,
    ) -> None:
        self._group = group
        self._clock = clock
        self._ask = ask
        self._read_rejected = rejected
        self._note_placed = note
        self._dropped = dropped
        self._nothing = Aside.of(np.empty(0, group.record), 0, AsideReason.OLDER)

    async def with_placed(self, last: Waiting, before: Sequence[ClosedBlock], letters: Array) -> Waiting:
        """A block with what of it is set aside for a known run in its triggers, late ones included.

        before: blocks that are committed with it, or earlier, in their order. letters: readings of the block that are
        dead letters already, and stay that: it has come before, and the database had something else in their places
        then. Record dtype, shape (n,).
        """
        chosen = to_place(last.block)
        aside = self._nothing if last.block.aside is None else last.block.aside[chosen]
        told = np.empty(0, ledger_dtype(self._group.size)) if last.told is None else last.told
        late = last.readings - readings_in(last.block)  # the first ones: see `late_to_place`
        compared = (aside.reason == AsideReason.DOUBTFUL) | (np.arange(len(aside.run)) < late)
        are_letters = ReadingSet(letters).have(aside.readings)
        parts, doubles, left = [without(last.block, chosen)], 0, are_letters.copy()
        for run in np.union1d(aside.run, told["run"]).tolist():
            mine = np.flatnonzero((aside.run == run) & ~are_letters)
            found = await self._place(
                run, aside.readings[mine], [*before, last.block], told[told["run"] == run], compared=compared[mine]
            )
            parts.append(found.block)
            doubles += int(np.count_nonzero(found.double))
            for reason, which in found.left.items():
                left[mine[which]] = True
                parts[0] = also_set_aside(parts[0], aside.readings[mine[which]], reason)
        block = merge(parts)
        placed = Placed(
            aside=int(np.count_nonzero(~left[late:])),
            late=int(np.count_nonzero(left[:late])),
            doubtful=int(np.count_nonzero(~left & (aside.reason == AsideReason.DOUBTFUL))),
            doubles=doubles,
            triggers=block.triggers - last.block.triggers,
            readings=readings_in(block) - last.readings,
        )
        return replace(last, block=block, readings=readings_in(block), placed=placed)

    async def _place(
        self, run: int, aside: Array, within: Sequence[ClosedBlock], told: Array, *, compared: Array
    ) -> "_Found":
        """Place readings of one run.

        aside: the readings, record dtype, shape (n,). within: the blocks that they are committed with, whose rows are
        newer than the database's. told: see `Waiting`; of this run. compared: which are doubles only if the same is
        there; bool, shape (n,).
        """
        triggers = np.union1d(aside["trigger"], told["trigger"])
        # Before the database is asked: what is no dead letter any more by then is there.
        rejected = await self._read_rejected(run, triggers)
        there = await self._rows(run, np.union1d(triggers, triggers - 1))
        rows = there[np.isin(there["trigger"], triggers)]
        rows = with_letters(rows, run, rejected, self._clock.now())
        rows = with_rows_of(within, run, triggers, rows)
        gone, double = are_dropped(rows, aside, self._dropped.have)
        # Assembly has put it there once, which may take more than its time to prove.
        belong = np.isin(aside["trigger"], told["trigger"])
        was_there, odd = double.copy(), np.zeros(len(aside), bool)
        block, double[~gone], odd[~gone] = place(
            self._group, run, aside[~gone], rows, self._clock.now(), belong=belong[~gone]
        )
        if block.triggers:
            below = block.ledger["trigger"] - 1
            block.ledger["skipped"] = ~np.isin(below, with_rows_of([*within, block], run, below, there)["trigger"])
            epoch = self._note_placed(run, block.ledger["trigger"])
            if epoch:
                block.ledger["epoch"] = epoch
        block = with_counts(block, rows, _duplicates(rows, told))
        # As the rows are with these: what was missing may make a trigger span more than a moment.
        vague = are_vague(with_rows_of([block], run, triggers, rows), aside)
        # With what was dropped nothing can be compared any more.
        other = double & (compared | vague) & ~gone
        if other.any():
            stored = await self._there(run, aside[other], [*rejected, *within, block])
            # Asked after that: a period is told before any of it is reduced.
            other[other] = self._are_others(aside[other], stored, self._have_less(rows, aside[other]))
        left = {AsideReason.AMBIGUOUS: odd, AsideReason.CONFLICT: other, AsideReason.DROPPED: gone & ~was_there}
        return _Found(block=block, double=double & ~other, left=left)

    async def _rows(self, run: int, triggers: Array) -> Array:
        """The ledger rows of triggers of a run, ascending, as the database has them."""
        rows = [np.empty(0, ledger_dtype(self._group.size))]
        rows += [await self._ask(LedgerRows(group=self._group, run=run, triggers=some)) for some in _some(triggers)]
        return own_rows(rows, self._group.size)

    async def _there(self, run: int, readings: Array, blocks: list[ClosedBlock]) -> Array:
        """What the database has, or gets with these blocks, of the triggers of readings of a run; see `comparable`."""
        asked = _some(np.unique(readings["trigger"]))
        wanted = [TriggersReadings(group=self._group, run=run, triggers=triggers) for triggers in asked]
        there = [readings_of_run(block, run) for block in blocks] + [await self._ask(query) for query in wanted]
        record = self._group.record
        return join([np.empty(0, record), *(comparable(each, record) for each in there)])

    def _have_less(self, rows: Array, readings: Array) -> Array:
        """Which readings are of a period of which not all is there: bool, shape (n,).

        At its end those of one trigger lie on both sides, by their own times or by that of the trigger.
        """
        have_less = self._dropped.have_less
        return are_dropped(rows, readings, have_less)[0] | have_less(readings["time_ns"])

    def _are_others(self, readings: Array, there: Array, less: Array) -> Array:
        """Which readings are others than those in their places: bool, shape (n,); less: of which nothing may be there.

        Of a period that is reduced, what lies around marks is there, and so is what no step has come to.
        """
        others = ~ReadingSet(there).have(comparable(readings, self._group.record))
        if (others & less).any():
            others &= ~less | np.isin(readings[PLACE], there[PLACE])
        return others


def _duplicates(rows: Array, told: Array) -> Array:
    """Doubles that assembly counted, then and since, of the triggers of ledger rows; -1 where nothing is known."""
    duplicates = np.full(len(rows), -1)
    _, there, of = np.intersect1d(rows["trigger"], told["trigger"], assume_unique=True, return_indices=True)
    duplicates[there] = told["duplicates"][of]
    return duplicates


def _some(triggers: Array) -> list[tuple[int, ...]]:
    """The triggers, as many at once as one question may have."""
    starts = range(0, len(triggers), TRIGGERS_AT_ONCE)
    return [tuple(triggers[start : start + TRIGGERS_AT_ONCE].tolist()) for start in starts]


def is_to_place(waiting: Waiting) -> bool:
    """True where the ledger of the database has to be asked about readings of a block, or about counts."""
    return waiting.told is not None or bool(to_place(waiting.block).any())


def apart(blocks: list[Waiting], is_in_part: Callable[[Waiting], bool]) -> list[list[Waiting]]:
    """Blocks to commit together: at most so many where the ledger has to be asked.

    is_in_part: whether the database gets a block in part alone: what is placed is placed by what it has behind that.
    """
    parts: list[list[Waiting]] = [[]]
    asks, readings = False, 0
    for waiting in blocks:
        more = int(np.count_nonzero(to_place(waiting.block)))
        is_asked = bool(more) or waiting.told is not None
        is_full = len(parts[-1]) >= BLOCKS_TOGETHER or readings + more > READINGS_TOGETHER
        is_behind_part = is_asked and any(map(is_in_part, parts[-1]))
        if parts[-1] and (is_behind_part or (is_full and (asks or is_asked))):
            parts, asks, readings = [*parts, []], False, 0
        asks |= is_asked
        readings += more
        parts[-1].append(waiting)
    return parts

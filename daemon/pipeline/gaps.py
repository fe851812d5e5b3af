"""Gaps: the ledger of the database says of each trigger how many numbers right before it were skipped.

Where a number that was skipped is placed, the gap that it lies in is divided: what lies below it goes to its own row,
what lies above it stays with the row above. Assembly does so for triggers that it remembers, this for all others. Of
those that it remembers it may have forgotten the row above: where the database calls them skipped, they are not.

Who counted a gap may not have known of a number in it: an earlier process has closed it, or another host's, and it is
committed later. So whatever is committed, dead letters that are retried, too, passes `CommittedGaps` last, which goes
by numbers alone.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import numpy as np

from schemas.batch import ClosedBlock
from schemas.ledger import ledger_dtype, own_rows
from schemas.queries import LedgerNeighbours, LedgerTail
from schemas.readings import Array, InstrumentGroup

RUNS_MOST = 8
"""Runs whose newest numbers are remembered: those that assembly has in memory, and some of a journal that comes."""

NUMBERS_MOST = 32_768
"""Numbers of a run that are remembered at least: four windows as they are by default."""

Ask = Callable[[LedgerNeighbours | LedgerTail], Awaitable[Array]]


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
        before = -1 if above is None else trigger - int(above["trigger"] - above["skipped"])
        if above is None or (before < 0 and below is not None):
            # No row covers it: its own row covers what is below, up to what is placed or closed there later.
            return 0 if below is None else trigger - below - 1
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


class CommittedGaps:
    """Sees that no gap covers a number of its run that is committed, or was dealt with as a dead letter.

    It makes gaps smaller, and never larger: a number that is still open is in no gap. ask: asks the store, for as long
    as it takes, about numbers below those that are remembered. tail: the newest ledger rows of the newest runs of the
    database, ascending; None where nobody knows them.
    """

    def __init__(self, group: InstrumentGroup, ask: Ask, tail: Array | None) -> None:
        self._group = group
        self._ask = ask
        rows = np.empty(0, ledger_dtype(group.size)) if tail is None else tail
        self._runs = {run: _Committed(rows[rows["run"] == run]) for run in np.unique(rows["run"]).tolist()}
        self._newest_run = math.inf if tail is None else max(self._runs, default=0)

    def forget(self) -> None:
        """Know nothing any more of what the database has: it may have less, or another one has written to it."""
        self._runs.clear()
        self._newest_run = math.inf

    async def fit(self, blocks: Sequence[ClosedBlock]) -> list[ClosedBlock]:
        """The blocks, which are committed next, with gaps that fit each other and what is committed.

        Rows of others, whose gaps cover numbers of these, are revised in the first block: where only some of the blocks
        come to be committed, that is right while the other numbers are open.
        """
        fit = list(blocks)
        if self._follow(fit):
            return fit
        every = [rows for each in fit for rows in (each.ledger, each.revised) if len(rows)]
        for run in np.unique(np.concatenate([rows["run"] for rows in every])).tolist() if every else ():
            fitting = _Fitting(await self._committed(run), _Around(self._group, run, self._ask), fit, run)
            fit = await fitting.fit()
        return fit

    def _follow(self, blocks: Sequence[ClosedBlock]) -> bool:
        """Take note of new triggers of one run above all that are committed, which fit, as almost always."""
        if any(len(each.revised) for each in blocks):
            return False
        ledgers = [each.ledger for each in blocks if len(each.ledger)]
        if not ledgers:
            return True
        runs, triggers, skipped = (_column(ledgers, name) for name in ("run", "trigger", "skipped"))
        known = self._runs.get(int(runs[0]))
        return known is not None and bool((runs == runs[0]).all()) and known.follow(triggers, skipped)

    async def _committed(self, run: int) -> "_Committed":
        if run not in self._runs:
            newest = np.empty(0, ledger_dtype(self._group.size))
            if run <= self._newest_run:
                newest = await self._ask(LedgerTail(group=self._group, most=1, run=run))
            if len(self._runs) >= RUNS_MOST:
                del self._runs[next(iter(self._runs))]
            self._runs[run] = _Committed(newest)
            self._newest_run = max(run, self._newest_run)
        return self._runs[run]


def _column(ledgers: Sequence[Array], name: str) -> Array:
    # Alone: to put whole rows together takes numpy ten times as long.
    return ledgers[0][name] if len(ledgers) == 1 else np.concatenate([rows[name] for rows in ledgers])


class _Committed:
    """The newest numbers of a run that are committed.

    numbers: these, ascending: from the first of them on all that are. is_whole: whether none is below them. gaps: how
    many were skipped before those that have skipped numbers before them.
    """

    def __init__(self, newest: Array) -> None:
        self.numbers: list[int] = newest["trigger"].tolist()
        self.is_whole = not self.numbers
        self.gaps: dict[int, int] = {}
        self._note_gaps(newest["trigger"], newest["skipped"])

    @property
    def lowest(self) -> float:
        """From which number on all are known."""
        return -math.inf if self.is_whole else self.numbers[0]

    @property
    def highest(self) -> float:
        """The highest number."""
        return self.numbers[-1] if self.numbers else -math.inf

    def follow(self, triggers: Array, skipped: Array) -> bool:
        """Take note of these, if they ascend from the highest, and no gap covers any; otherwise return False."""
        gaps_from = triggers - skipped
        if gaps_from[0] <= self.highest or not (gaps_from[1:] > triggers[:-1]).all():
            return False
        self.numbers += triggers.tolist()
        self._note_gaps(triggers, skipped)
        self.shorten()
        return True

    def add(self, number: int) -> None:
        """Take note of one that is committed."""
        if number > self.highest:
            self.numbers.append(number)
        elif number > self.lowest and self.numbers[bisect_left(self.numbers, number)] != number:
            insort(self.numbers, number)

    def note_gap(self, number: int, skipped: int) -> None:
        """So many numbers were skipped before one that is committed."""
        if skipped and number >= self.lowest:
            self.gaps[number] = skipped
        else:
            self.gaps.pop(number, None)

    def may_cover(self, number: int) -> bool:
        """Whether the gap of the next one above may cover a number."""
        if number < self.lowest:
            return True
        at = bisect_right(self.numbers, number)
        return at < len(self.numbers) and self.gaps.get(self.numbers[at], 0) >= self.numbers[at] - number

    def shorten(self) -> None:
        """Forget the oldest, so many at once that it is seldom done."""
        if len(self.numbers) > 2 * NUMBERS_MOST:
            del self.numbers[:-NUMBERS_MOST]
            self.is_whole = False
            self.gaps = {number: skipped for number, skipped in self.gaps.items() if number >= self.numbers[0]}

    def _note_gaps(self, triggers: Array, skipped: Array) -> None:
        if skipped.any():
            has = skipped > 0
            self.gaps.update(zip(triggers[has].tolist(), skipped[has].tolist(), strict=True))


class _Around:
    """The ledger rows that the database has around numbers of a run; for those from one gap it is asked once."""

    def __init__(self, group: InstrumentGroup, run: int, ask: Ask) -> None:
        self._group, self._run, self._ask = group, run, ask
        self._below, self._above = math.inf, -math.inf
        self._row: Array | None = None

    async def at(self, number: int) -> tuple[float, Array | None]:
        """The number right below, -inf where there is none, and the row right above."""
        if not self._below < number < self._above:
            found = await self._ask(LedgerNeighbours(group=self._group, run=self._run, trigger=number))
            rows = own_rows([found], self._group.size)
            above = rows[rows["trigger"] > number]
            self._below = max(rows["trigger"][rows["trigger"] < number].tolist(), default=-math.inf)
            self._above = int(above["trigger"][0]) if len(above) else math.inf
            self._row = above[:1] if len(above) else None
        return self._below, self._row


class _Fitting:
    """Blocks that are committed next, of which the gaps of one run are made to fit."""

    def __init__(self, known: _Committed, around: _Around, blocks: Sequence[ClosedBlock], run: int) -> None:
        self._known, self._around = known, around
        self._blocks = list(blocks)
        self._new: list[int] = []
        self._revised: set[int] = set()
        self._gaps: dict[int, list[tuple[int, str, int]]] = defaultdict(list)  # by number, where its rows are
        self._others: list[Array] = []
        for k, block in enumerate(self._blocks):
            ledger, revised = block.ledger, block.revised
            self._new += ledger["trigger"][ledger["run"] == run].tolist()
            self._revised.update(revised["trigger"][revised["run"] == run].tolist())
            for name, rows in (("ledger", ledger), ("revised", revised)):
                for row in np.flatnonzero((rows["run"] == run) & (rows["skipped"] > 0)).tolist():
                    self._gaps[int(rows["trigger"][row])].append((k, name, row))
        self._new.sort()

    async def fit(self) -> list[ClosedBlock]:
        """The blocks, as they fit."""
        highest = self._known.highest
        for number in self._new:
            self._known.add(number)
        new = set(self._new)
        for number in new | self._revised:
            if number not in self._gaps:
                self._known.note_gap(number, 0)
        # From above: the database is asked once about each of its gaps.
        for number in sorted(new | self._gaps.keys(), reverse=True):
            if number in new and number < highest:
                await self._fit_above(number)
            if number in self._gaps:
                await self._fit_own(number)
        self._known.shorten()
        self._revise_others()
        return self._blocks

    async def _fit_above(self, number: int) -> None:
        """Let the gap of the row above end at a number that comes to be committed, where that is not in the blocks."""
        if not self._known.may_cover(number):
            return
        _, row = await self._around.at(number)
        at = bisect_right(self._new, number)
        if row is None or int(row["trigger"][0]) in self._revised:
            return
        above, skipped = int(row["trigger"][0]), int(row["skipped"][0])
        is_next = at == len(self._new) or above < self._new[at]
        if is_next and skipped > above - number - 1:
            row = row.copy()
            row["skipped"] = above - number - 1
            self._others.append(row)
            self._known.note_gap(above, above - number - 1)

    async def _fit_own(self, number: int) -> None:
        """Let the gap of rows in the blocks begin above the number that is committed below them."""
        most = number - await self._below(number) - 1
        places = self._gaps[number]
        for k, name, row in places:
            rows = getattr(self._blocks[k], name)
            if rows["skipped"][row] > most:
                rows = rows.copy()
                rows["skipped"][row] = most
                self._blocks[k] = replace(self._blocks[k], **{name: rows})
        # What is revised of a batch is written last.
        k, name, row = max(places, key=lambda place: (place[1] == "revised", place[0]))
        self._known.note_gap(number, int(getattr(self._blocks[k], name)["skipped"][row]))

    async def _below(self, number: int) -> float:
        """The number right below that is committed, or comes to be."""
        numbers = self._known.numbers
        if at := bisect_left(numbers, number):
            return numbers[at - 1]
        if self._known.is_whole:
            return -math.inf
        below, _ = await self._around.at(number)
        at = bisect_left(self._new, number)
        return max(below, self._new[at - 1]) if at else below

    def _revise_others(self) -> None:
        if self._others:
            revised = np.concatenate([self._blocks[0].revised, *self._others])
            self._blocks[0] = replace(self._blocks[0], revised=revised)

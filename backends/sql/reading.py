"""The questions of `schemas.queries` asked of a SQL database: what the selects of `backends.sql.selects` answer.

Figures of a stretch of which readings were reduced are asked within one snapshot.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic

import numpy as np
import sqlalchemy as sa

from backends.base import StoreBusy
from backends.columns.windows import between as readings_between
from backends.columns.windows import in_order, rows_to_know, see_not_too_large, within
from backends.decimation import (
    Stretch,
    figures_across,
    figures_of,
    in_steps,
    means_across,
    parts_of,
    together,
)
from backends.questions import Questions
from backends.sql import selects
from backends.sql.connection import C
from backends.sql.tables import GroupTables
from schemas.batch import Layout
from schemas.decimation import Decimated
from schemas.ledger import ledger_dtype
from schemas.queries import TOTALS, Figures, Means, SkippedTriggers, Totals, WindowReadings
from schemas.readings import Array

AT_ONCE = 1_000
"""So many triggers are asked for with one statement."""

LOOKS = 3
"""So often it is counted again what is there, where a period is dropped meanwhile."""


class SqlQuestions(Questions, Generic[C]):
    """Answers questions about one group over one connection."""

    sorts_here: ClassVar[bool]
    """Whether readings are put in order here, where that is cheaper than at the server."""

    def __init__(self, connection: C, tables: GroupTables) -> None:
        self._connection = connection
        self._tables = tables

    @abstractmethod
    async def _ledger(self, select: sa.SelectBase) -> Array:
        """The ledger rows that a select finds; `ledger_dtype(group.size)`."""

    @abstractmethod
    async def _readings(self, select: sa.SelectBase) -> Array:
        """The readings of the rows of the group's table that a select finds; `answer_dtype(group)`."""

    @abstractmethod
    async def _at_rest(self, query: Totals) -> Sequence[Iterable[Any]] | None:
        """The rows of `selects.totals`; None where a period that is being dropped was removed meanwhile."""

    async def _totals(self, query: Totals) -> Array:
        """How much is stored.

        Raises:
            StoreBusy: something is always being dropped.
        """
        for _ in range(LOOKS):
            rows = await self._at_rest(query)
            if rows is not None:
                return np.array([(*row, 0, 0) for row in rows], TOTALS)
        raise StoreBusy(f"periods of group {self._tables.group.name!r} are being dropped")

    async def _newest_complete(self) -> Array:
        return await self._ledger(selects.newest_complete(self._tables))

    async def _ledger_row(self, trigger: int, run: int | None) -> Array:
        return await self._ledger(selects.ledger_row(self._tables, trigger, run))

    async def _ledger_tail(self, most: int, run: int | None) -> Array:
        return (await self._ledger(selects.ledger_tail(self._tables, most, run)))[::-1]

    async def _ledger_rows(self, run: int, triggers: Array) -> Array:
        parts = [np.empty(0, ledger_dtype(self._tables.group.size))]
        for start in range(0, len(triggers), AT_ONCE):
            some = triggers[start : start + AT_ONCE].tolist()
            parts.append(await self._ledger(selects.ledger_of_triggers(self._tables, run, some)))
        return np.concatenate(parts)

    async def _skipped(self, query: SkippedTriggers) -> Array:
        ledger = self._tables.ledger.c
        return await self._ledger(selects.skipped_triggers(self._tables, query, ledger.skipped > 0, ledger.time_ns))

    async def _trigger(self, row: Array) -> Array:
        # Two steps, so that the times are constants to the planner: it then touches no partition but theirs.
        key = {name: int(row[name][0]) for name in ("run", "trigger", "time_ns", "first_ns", "last_ns")}
        found = selects.readings_of_trigger(self._tables, **key)
        if not self.sorts_here:
            return await self._readings(found)
        return in_order(await self._readings(found.order_by(None)))

    async def _window(self, query: WindowReadings) -> Array:
        in_any_order = self.sorts_here or query.most is not None
        found: sa.Select[Any] = selects.readings_in_window(
            self._tables, query, rows_to_know(query, self._tables.layout)
        )
        readings = await self._readings(found.order_by(None) if in_any_order else found)
        see_not_too_large(readings, query, self._tables.layout)
        found_there = within(readings, query, self._tables.layout)
        return in_order(found_there) if in_any_order else found_there


Use = Callable[[Array], None]
Readings = Callable[[Means, Use], Awaitable[None]]
Reduced = Callable[[int, int, int | None], Awaitable[Array]]

ROWS = 200_000
"""About so many figures are asked for at once, of whatever buckets the steps are made."""


async def answer_across(
    query: Means | Figures,
    account: Iterable[Decimated],
    layout: Layout,
    *,
    raw: Callable[[Means], Awaitable[Array]],
    readings: Readings,
    reduced: Reduced,
) -> Array:
    """Answer `Means` or `Figures` within one snapshot, also of what was reduced.

    Args:
        query: what is asked.
        account: of the group.
        layout: of the group.
        raw: answers of readings that are there.
        readings: hands on, in chunks, all readings of the rows that may have some in the time of a question.
        reduced: returns figures of buckets that begin within a stretch of time, of one instrument, or of all for None.

    """

    async def of_stretch(stretch: Stretch) -> Array:
        return await _figures_of_stretch(query, stretch, readings, reduced)

    if isinstance(query, Figures):
        return await figures_across(query, account, of_stretch=of_stretch)
    return await means_across(query, account, layout, raw=raw, of_stretch=of_stretch)


async def _figures_of_stretch(query: Means | Figures, stretch: Stretch, readings: Readings, reduced: Reduced) -> Array:
    """Return the figures of a stretch, in its steps: `reduced_dtype(group)`, by time and instrument."""
    group, step_ns = query.group, stretch.step_ns
    instrument = query.instrument if isinstance(query, Figures) else None
    found = []
    for start_ns, end_ns in parts_of(stretch, ROWS // (group.size if instrument is None else 1)):
        found.append(await asyncio.to_thread(in_steps, await reduced(start_ns, end_ns, instrument), group, step_ns))
    figures = await asyncio.to_thread(together, found, group)

    def add(some: Array) -> None:
        nonlocal figures
        within = readings_between(some, stretch.start_ns, stretch.end_ns)
        if instrument is not None:
            within = within[within["instrument"] == instrument]
        figures = together([figures, figures_of(within, group, step_ns)], group)

    await readings(Means(group=group, start_ns=stretch.start_ns, end_ns=stretch.end_ns, step_ns=step_ns), add)
    return figures

"""The questions of `schemas.queries`, asked of PostgreSQL; readings come as binary COPY.

For a snapshot the stretch just before the moment is looked at first, which nearly always has all instruments, then
earlier and longer ones, for what is still missing.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg
import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from backends.columns.reductions import Newest
from backends.columns.stored import MISSING_OFFSET, SLACK_NS
from backends.columns.windows import in_order
from backends.postgresql.protocol import output
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.copy import decode_rows
from backends.postgresql.protocol.sql import compiled, quoted
from backends.postgresql.reading import figures
from backends.sql import selects
from backends.sql.reading import AT_ONCE, SqlQuestions
from backends.sql.retention import apart_name, select_apart
from backends.sql.tables import GroupTables
from schemas.batch import Layout
from schemas.queries import InstrumentReadings, Reduction, Snapshot, Totals, TriggersReadings, answer_dtype
from schemas.readings import Array

WORTH_READING = 8_000
"""Between two wanted triggers so many readings are rather gone through than looked up again: the BRIN index tells
stretches of about 4,000 apart."""


async def readings_of_triggers(connection: Connection, tables: GroupTables, query: TriggersReadings) -> Array:
    """Answer `TriggersReadings`: `answer_dtype(group)`, by trigger and instrument."""
    wanted, parts = sorted(set(query.triggers)), [np.empty(0, answer_dtype(tables.group))]
    for start in range(0, len(wanted), AT_ONCE):
        found = selects.ledger_of_triggers(tables, query.run, wanted[start : start + AT_ONCE])
        rows = await output.ledger(connection, tables, found)
        if len(rows):
            select = rows_of(tables, rows) if tables.layout is Layout.ROWS else arrays_of(tables, rows)
            parts.append(await output.readings(connection, tables, select))
    return in_order(np.concatenate(parts))


def rows_of(tables: GroupTables, rows: Array) -> sa.Select[Any]:
    """Select the single readings of triggers of one run by their ledger rows, in no order."""
    data = tables.data.c
    first, last, low, high = _stretches(rows, tables.group.size)
    names = ("first", "last", "low", "high")
    stretch = sa.func.unnest(*map(_array, (first, last, low, high))).table_valued(*names).render_derived("stretch")
    # Stretches are apart by their triggers: the times of an instrument whose clock is wrong reach into others.
    is_in = sa.and_(
        data.time_ns.between(stretch.c.low, stretch.c.high),
        data.trigger_id.between(stretch.c.first, stretch.c.last),
    )
    # Not for the index, which would be gone through for each trigger again.
    wanted = (data.trigger_id + 0).in_(rows["trigger"].tolist())
    return (
        sa.select(*data)
        .select_from(stretch.join(tables.data, is_in))
        .where(data.run == int(rows["run"][0]), wanted)
        .where(data.time_ns >= int(low.min()), data.time_ns <= int(high.max()))
    )


def arrays_of(tables: GroupTables, rows: Array) -> sa.Select[Any]:
    """Select the arrays of triggers of one run by their ledger rows, in no order."""
    data = tables.data.c
    return sa.select(*data).where(
        data.time_ns.in_(np.unique(rows["time_ns"]).tolist()),
        data.run == int(rows["run"][0]),
        (data.trigger_id + 0).in_(rows["trigger"].tolist()),
    )


def _stretches(rows: Array, instruments: int) -> tuple[Array, Array, Array, Array]:
    """Put triggers that are near each other together: first and last trigger, earliest and latest time; int64."""
    rows = rows[np.argsort(rows["trigger"])]
    skipped = np.diff(rows["trigger"]).astype(np.float64) * instruments
    first = np.flatnonzero(np.concatenate([[True], skipped > WORTH_READING]))
    last = np.concatenate([first[1:], [len(rows)]]) - 1
    low, high = np.minimum.reduceat(rows["first_ns"], first), np.maximum.reduceat(rows["last_ns"], first)
    return rows["trigger"][first], rows["trigger"][last], low, high


def _array(times: Array) -> sa.ColumnElement[Any]:
    return sa.cast(postgresql.array(times.tolist()), postgresql.ARRAY(sa.BigInteger))


FIRST_STRETCH_NS = 250_000_000
WIDER = 8
PICKED = 16
"""While so few instruments are missing, the server leaves out triggers in which they are missing, too."""


async def snapshot(connection: Connection, tables: GroupTables, query: Snapshot) -> Array:
    """Answer `Snapshot`: `answer_dtype(group)`, by instrument."""
    newest, reach = Newest(query), 0
    while (missing := newest.missing(query.at_ns - reach)) and reach < query.within_ns:
        before, reach = reach, min(query.within_ns, WIDER * reach or FIRST_STRETCH_NS)
        stretch = query.at_ns - reach, query.at_ns - before
        if tables.layout is Layout.ROWS:
            found = newest_readings(tables, *stretch, missing)
            newest.add(await output.readings(connection, tables, found))
        else:
            # Earlier readings come along with their triggers.
            found = triggers_with(tables, *stretch, missing)
            await output.readings_in_chunks(connection, tables, found, newest.add)
    return newest.found


def newest_readings(tables: GroupTables, after_ns: int, last_ns: int, instruments: Sequence[int]) -> sa.Select[Any]:
    """Select, of single readings with after_ns < time_ns <= last_ns, the newest of each of some instruments."""
    data = tables.data.c
    found = sa.select(*data).where(*_between(data.time_ns, after_ns, last_ns))
    if len(instruments) < tables.group.size:
        found = found.where(data.instrument.in_(instruments))
    newest_first = (data.time_ns.desc(), data.run.desc(), data.trigger_id.desc())
    return found.ext(postgresql.distinct_on(data.instrument)).order_by(data.instrument, *newest_first)


def triggers_with(tables: GroupTables, after_ns: int, last_ns: int, instruments: Sequence[int]) -> sa.Select[Any]:
    """Select the arrays of triggers that have readings with after_ns < time_ns <= last_ns, and some of instruments."""
    data = tables.data.c
    offsets, there = data.time_offset_ns, sa.func.array_remove(data.time_offset_ns, MISSING_OFFSET)
    found = sa.select(*data).where(
        *_between(data.time_ns, after_ns - SLACK_NS, last_ns + SLACK_NS),
        # Whole arrays of all that the slack reaches would be ten seconds of triggers each time.
        sa.or_(
            sa.and_(*_between(data.time_ns, after_ns, last_ns)),
            sa.and_(data.time_ns <= after_ns, after_ns - data.time_ns < sa.any_(offsets)),
            sa.and_(data.time_ns > last_ns, last_ns - data.time_ns >= sa.any_(there)),
        ),
    )
    if len(instruments) <= PICKED:
        found = found.where(sa.or_(*(offsets[number + 1] != MISSING_OFFSET for number in instruments)))
    return found


def _between(time_ns: sa.ColumnElement[Any], after_ns: int, last_ns: int) -> tuple[sa.ColumnElement[bool], ...]:
    # As far as int64 goes: a constant beyond it makes the server compare decimal numbers.
    return time_ns >= max(after_ns + 1, -(2**63)), time_ns <= min(last_ns, 2**63 - 1)


class PostgresqlQuestions(SqlQuestions[Connection]):
    """Answers questions about one group."""

    sorts_here = False

    async def _ledger(self, select: sa.SelectBase) -> Array:
        """The ledger rows that a select finds."""
        return await output.ledger(self._connection, self._tables, select)

    async def _readings(self, select: sa.SelectBase) -> Array:
        """The readings of the rows that a select finds."""
        return await output.readings(self._connection, self._tables, select)

    async def _at_rest(self, query: Totals) -> Sequence[Iterable[Any]] | None:
        try:
            async with self._connection.transaction(readonly=True):
                # Given up here, it would go on there.
                await self._connection.execute(f"SET LOCAL statement_timeout = {math.ceil(1000 * query.within_s)}")
                apart = await self._set_apart()
                return await self._connection.fetch(compiled(selects.totals(self._tables, apart)))
        except asyncpg.UndefinedTableError as error:
            if "$" not in str(error):
                raise
            # What was set apart has been counted and dropped since it was found.
            return None

    async def _set_apart(self) -> list[str]:
        """Tables of readings that are being dropped, held together with the group's so that none goes meanwhile."""
        data, group = self._tables.data, self._tables.group
        schema = str(data.schema)
        await self._connection.execute(f"LOCK TABLE {quoted(schema, data.name)} IN ACCESS SHARE MODE")
        found = await self._connection.fetch(compiled(select_apart(schema, group.name)))
        names = [apart_name(self._tables, row["name"]) for row in found]
        for name in names:
            await self._connection.execute(f"LOCK TABLE {quoted(schema, name)} IN ACCESS SHARE MODE")
        return names

    async def _figures(self, query: Reduction) -> Array:
        """Means or aggregates."""
        return await figures.answer(self._connection, self._tables, query)

    async def _ledger_ends(self) -> Array:
        """The first and the last ledger row of the newest run."""
        ends = await self._ledger(selects.ledger_ends(self._tables))
        return ends[np.unique(ends["trigger"], return_index=True)[1]]

    async def _instrument(self, query: InstrumentReadings) -> Array:
        """One instrument's newest readings."""
        found = selects.readings_of_instrument(self._tables, query)
        return decode_rows(await output.copied(self._connection, found), self._tables.group)[::-1]

    async def _triggers(self, query: TriggersReadings) -> Array:
        """The readings of many triggers."""
        return await readings_of_triggers(self._connection, self._tables, query)

    async def _snapshot(self, query: Snapshot) -> Array:
        """Every instrument's value valid at a moment."""
        return await snapshot(self._connection, self._tables, query)

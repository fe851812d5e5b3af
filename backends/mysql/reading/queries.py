"""The questions of `schemas.queries`, asked of MariaDB and MySQL; readings come in the binary protocol."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from pymysql.err import MySQLError

from backends.columns.stored import MISSING_OFFSET, STORED_DTYPES, slack
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import read_arrays, read_elements, read_ledger, read_rows
from backends.mysql.protocol.sql import compiled, quoted
from backends.mysql.reading.figures import figures
from backends.mysql.reading.snapshot import snapshot
from backends.mysql.reading.triggers import TRIGGERS, ledger_of_triggers, readings_of_triggers
from backends.mysql.retention import tables_there
from backends.mysql.schema.tables import COMPLETE, SKIPPED
from backends.mysql.schema.view import integer, picked
from backends.mysql.server.errors import CHANGED, number_of
from backends.mysql.server.facts import product_of
from backends.sql import selects
from backends.sql.reading import SqlQuestions
from backends.sql.retention import apart_name, select_apart
from backends.sql.tables import GroupTables
from schemas.batch import Layout
from schemas.ledger import ledger_dtype
from schemas.queries import InstrumentReadings, Reduction, SkippedTriggers, Snapshot, Totals, TriggersReadings
from schemas.readings import Array


class MysqlQuestions(SqlQuestions[Connection]):
    """Answers questions about one group."""

    sorts_here = True

    @property
    def _schema(self) -> str:
        return str(self._tables.data.schema)

    async def _ledger(self, select: sa.SelectBase) -> Array:
        """The ledger rows that a select finds."""
        return read_ledger(await self._connection.select(compiled(select)), self._tables.group.size)

    async def _readings(self, select: sa.SelectBase) -> Array:
        """The readings of the rows that a select finds."""
        read = read_arrays if self._tables.layout is Layout.ARRAYS else read_rows
        return read(await self._connection.select(compiled(select)), self._tables.group)

    async def _at_rest(self, query: Totals) -> Sequence[tuple[Any, ...]] | None:
        # A transaction that has read the group's table keeps others from taking a partition out of it.
        await self._connection.run("START TRANSACTION")
        await self._connection.fetch(f"SELECT 1 FROM {quoted(self._schema, self._tables.data.name)} LIMIT 1")
        begun = await self._begun()
        there = await tables_there(self._connection, self._schema, begun)
        try:
            rows = await self._counted(query, sorted(there))
        except MySQLError as error:
            if number_of(error) not in CHANGED:
                raise
            rows = None
        await self._connection.run("COMMIT")
        # One that was removed since the snapshot is in neither, by that.
        removed = set(begun) - there
        return None if removed - set(await self._begun() if removed else ()) else rows

    async def _begun(self) -> list[str]:
        """Tables of readings that are set apart and not counted yet, or are about to be."""
        found = await self._connection.fetch(compiled(select_apart(self._schema, self._tables.group.name)))
        return [apart_name(self._tables, str(name)) for (name,) in found]

    async def _counted(self, query: Totals, apart: Sequence[str]) -> Sequence[tuple[Any, ...]]:
        # Given up here, it would go on there.
        text = compiled(selects.totals(self._tables, apart))
        if product_of(self._connection.version).backend == "mariadb":
            text = f"SET STATEMENT max_statement_time = {query.within_s} FOR {text}"
        else:
            most = f"/*+ MAX_EXECUTION_TIME({math.ceil(1000 * query.within_s)}) */"
            text = text.replace("SELECT", f"SELECT {most}", 1)
        return await self._connection.fetch(text)

    async def _figures(self, query: Reduction) -> Array:
        """Means or aggregates."""
        return await figures(self._connection, self._tables, query)

    async def _newest_complete(self) -> Array:
        """The ledger row of the newest trigger with every instrument there, by the index made for it."""
        ledger = self._tables.ledger.c
        return await self._ledger(
            sa.select(*selects.ledger_columns(self._tables))
            .where(sa.literal_column(quoted(COMPLETE)) == 1)
            .order_by(ledger.run.desc(), ledger.trigger_id.desc())
            .limit(1)
        )

    async def _ledger_row(self, trigger: int, run: int | None) -> Array:
        """One trigger's ledger row."""
        if run is not None:
            return await super()._ledger_row(trigger, run)
        # The key begins with the run. There are few, and their list is found by skipping from one to the next.
        ledger = self._tables.ledger.c
        runs = [run for (run,) in await self._connection.fetch(compiled(sa.select(ledger.run).distinct()))]
        if not runs:
            return np.empty(0, ledger_dtype(self._tables.group.size))
        found = sa.select(*selects.ledger_columns(self._tables)).where(
            ledger.run.in_(runs), ledger.trigger_id == trigger
        )
        return await self._ledger(found.order_by(ledger.run.desc()).limit(1))

    async def _ledger_ends(self) -> Array:
        """The first and the last ledger row of the newest run."""
        last = await self._ledger_tail(1, None)
        if not len(last):
            return last
        ledger = self._tables.ledger.c
        of_run = sa.select(*selects.ledger_columns(self._tables)).where(ledger.run == int(last["run"][0]))
        first = await self._ledger(of_run.order_by(ledger.trigger_id).limit(1))
        return last if first["trigger"][0] == last["trigger"][0] else np.concatenate([first, last])

    async def _ledger_rows(self, run: int, triggers: Array) -> Array:
        """The ledger rows of triggers."""
        parts = [np.empty(0, ledger_dtype(self._tables.group.size))]
        for start in range(0, len(triggers), TRIGGERS):
            some = triggers[start : start + TRIGGERS]
            parts.append(await ledger_of_triggers(self._connection, self._tables, run, some))
        return np.concatenate(parts)

    async def _skipped(self, query: SkippedTriggers) -> Array:
        """The ledger rows of triggers that follow a gap, by the index made for it."""
        since: sa.ColumnElement[int] = sa.literal_column(quoted(SKIPPED))
        return await self._ledger(selects.skipped_triggers(self._tables, query, since.is_not(None), since))

    async def _instrument(self, query: InstrumentReadings) -> Array:
        """One instrument's newest readings."""
        if self._tables.layout is Layout.ROWS:
            return (await self._readings(selects.readings_of_instrument(self._tables, query)))[::-1]
        packets = await self._connection.select(elements_of_instrument(self._tables, query))
        return read_elements(packets, self._tables.group, query.instrument)[::-1]

    async def _triggers(self, query: TriggersReadings) -> Array:
        """The readings of many triggers."""
        return await readings_of_triggers(self._connection, self._tables, query)

    async def _snapshot(self, query: Snapshot) -> Array:
        """Every instrument's value valid at a moment."""
        return await snapshot(self._connection, self._tables, query)


def elements_of_instrument(tables: GroupTables, query: InstrumentReadings) -> str:
    """Select one instrument's readings out of the arrays, newest first; their bytes are picked out by the server."""
    number = str(query.instrument)
    low, high = slack(query.start_ns, query.end_ns)
    reading_ns = f"(time_ns + {integer('time_offset_ns', number, 8)})"
    channels = (
        picked(quoted(channel.name), number, int(STORED_DTYPES[channel.dtype][-1])) for channel in tables.group.channels
    )
    offset = picked("time_offset_ns", number, 8)
    missing = MISSING_OFFSET.to_bytes(8, "little", signed=True).hex()
    return (
        f"SELECT run, trigger_id, time_ns, {', '.join([offset, *channels])}"
        f" FROM {quoted(str(tables.data.schema), tables.data.name)}"
        f" WHERE time_ns BETWEEN {low} AND {high} AND {offset} <> x'{missing}'"
        f" AND {reading_ns} >= {query.start_ns} AND {reading_ns} < {query.end_ns}"
        f" ORDER BY {reading_ns} DESC LIMIT {query.most}"
    )

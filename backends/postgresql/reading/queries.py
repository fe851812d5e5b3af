"""The questions of `schemas.queries`, asked of PostgreSQL; readings come as binary COPY."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg
import numpy as np
import sqlalchemy as sa

from backends.postgresql.protocol import output
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.copy import decode_rows
from backends.postgresql.protocol.sql import compiled, quoted
from backends.postgresql.reading import figures
from backends.postgresql.reading.snapshot import snapshot
from backends.postgresql.reading.triggers import readings_of_triggers
from backends.sql import selects
from backends.sql.reading import SqlQuestions
from backends.sql.retention import apart_name, select_apart
from schemas.queries import InstrumentReadings, Reduction, Snapshot, Totals, TriggersReadings
from schemas.readings import Array


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

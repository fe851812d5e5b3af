"""Dropping a period in MariaDB and MySQL: its partition is exchanged with an empty table, counted, and dropped.

A server commits after every statement that changes a table, so that there is a step for each, in an order in which
whoever comes after a kill sees by what is there how far it went:

1. The row of `dropped`. 2. An empty table, made like the group's. 3. EXCHANGE: it has the readings now, and the
partition has none. 4. What was counted, in one transaction. 5. The table is dropped. 6. `first`, which takes what fits
no other partition, takes the span over. 7. The row says that it ended.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from pymysql.err import MySQLError

from backends.base import StoreBusy
from backends.diagnosis import no_such
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import compiled, literal, quoted
from backends.mysql.schema.partitions import (
    FIRST,
    MOVED_AT_MOST,
    Range,
    beside,
    definition_of,
    how_full,
    listing,
    range_name,
    ranges_of,
    reorganize,
)
from backends.mysql.server.driver import LEAST_PATIENCE_S, briefly, release, take
from backends.sql.accounting import Accounting
from backends.sql.connection import LockNotGranted
from backends.sql.retention import Dropping, apart_name
from schemas.retention import Dropped, Period, Rule


async def tables_there(connection: Connection, schema: str, names: Sequence[str]) -> set[str]:
    """Which of these tables there are."""
    if not names:
        return set()
    found = await connection.fetch(
        f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = {literal(schema)}"
        f" AND TABLE_NAME IN ({', '.join(map(literal, names))})"
    )
    return {str(name) for (name,) in found}


def dropping_lock(schema: str, table: str) -> str:
    """Name of the lock of who drops a period of a table, or exchanges one."""
    return f"dropping {schema}.{table}"


class MysqlAccounting(Accounting[Connection]):
    """Keeps the account of periods over a connection to MariaDB or MySQL."""

    server_ns = "SELECT UNIX_TIMESTAMP() * 1000000000"

    async def _rows(self, select: sa.SelectBase) -> Sequence[Sequence[Any]]:
        return await self._connection.fetch(compiled(select))

    async def _fetch(self, text: str) -> Sequence[Sequence[Any]]:
        return await self._connection.fetch(text)

    def _literal(self, text: str) -> str:
        return literal(text)

    def _quoted(self, *names: str) -> str:
        return quoted(*names)

    async def _briefly(self, statement: str) -> None:
        """Run what needs the table alone, if that is to be had within the patience."""
        try:
            await briefly(self._connection, statement, self._patience_s)
        except LockNotGranted as error:
            raise StoreBusy(f"table {self._tables.data.name!r} is in use") from error

    async def _size_of(self, period: Period) -> int:
        """What a period's partition takes, in bytes.

        Raises:
            StoreError: there is none.
        """
        name, table = range_name(period.name), self._tables.data.name
        sizes = await self._fetch(
            "SELECT DATA_LENGTH + INDEX_LENGTH FROM information_schema.PARTITIONS"
            f" WHERE TABLE_SCHEMA = {literal(self._schema)} AND TABLE_NAME = {literal(table)}"
            f" AND PARTITION_NAME = {literal(name)}"
        )
        if not sizes:
            raise no_such(period)
        return int(sizes[0][0] or 0)


class MysqlDropping(MysqlAccounting, Dropping[Connection]):
    """Drops periods of one group; EXCHANGE and what follows wait for open transactions that have read the table."""

    async def drop(self, period: Period, rule: Rule, at_ns: int) -> Dropped:
        """Drop a period, under a lock: a statement of a client that was killed goes on, and may exchange it yet."""
        name = dropping_lock(self._schema, self._tables.data.name)
        try:
            await take(self._connection, name, LEAST_PATIENCE_S)
        except LockNotGranted:
            table = self._tables.data.name
            raise StoreBusy(f"something of table {table!r} is being dropped over another connection") from None
        # When something goes wrong the connection ends, and the lock goes with it.
        dropped = await super().drop(period, rule, at_ns)
        await release(self._connection, name)
        return dropped

    async def _set_apart(self, begun: Dropped) -> None:
        await self._connection.run(self._begin(begun, await self._size_of(begun.period)))

    async def _complete_apart(self, begun: Dropped, *, is_counted: bool) -> None:
        if is_counted or await self._has_rows(begun.period):
            return
        try:
            await self._exchange(begun)
        except (StoreBusy, MySQLError):
            if not self._connection.closed:
                await self._take_back(begun)
            raise

    async def _exchange(self, begun: Dropped) -> None:
        apart, table = self._apart(begun.period), quoted(self._schema, self._tables.data.name)
        # While it is empty the partition, whatever it holds by now, may be exchanged with it again.
        await self._connection.run(f"DROP TABLE IF EXISTS {apart}")
        definition = await definition_of(self._connection, self._schema, self._tables.data.name)
        await self._connection.run(beside(definition, apart, None))
        name = quoted(range_name(begun.period.name))
        await self._briefly(f"ALTER TABLE {table} EXCHANGE PARTITION {name} WITH TABLE {apart}")

    async def _take_back(self, begun: Dropped) -> None:
        """The table is in use, or a right is lacking: nothing has changed but the row, and nothing is to be gone on."""
        if await self._has_rows(begun.period):
            return
        await self._connection.run(f"DELETE FROM {quoted(self._schema, 'dropped')} WHERE {self._key_of(begun)}")
        # Without the right to do so it stays, empty; the next drop replaces it.
        with suppress(MySQLError):
            await self._connection.run(f"DROP TABLE IF EXISTS {self._apart(begun.period)}")

    async def _finish(self, begun: Dropped, counted: list[str], at_ns: int) -> None:
        counted = [*counted, self._note(begun, counted_ns=at_ns)]
        for statement in ("START TRANSACTION", *counted, "COMMIT"):
            await self._connection.run(statement)
        await self._connection.run(f"DROP TABLE IF EXISTS {self._apart(begun.period)}")
        await self._merge(begun.period)
        await self._connection.run(self._note(begun, dropped_ns=at_ns))

    async def _merge(self, period: Period) -> None:
        """Let `first` take the span over, where it lies next to it: with what has come there since by a wrong clock."""
        table, name = self._tables.data.name, range_name(period.name)
        ranges = ranges_of(await self._connection.fetch(listing(self._schema, table)))
        names = [each.name for each in ranges]
        if names[:1] != [FIRST] or names[1:2] != [name]:
            return
        for of in ranges[:2]:
            ((full,),) = await self._connection.fetch(how_full(self._schema, table, of))
            if full > MOVED_AT_MOST:
                return
        both = Range(FIRST, ranges[0].start_ns, ranges[1].end_ns)
        merged = reorganize(self._schema, table, ranges[0], [both]).replace(
            f"PARTITION {quoted(FIRST)} INTO", f"PARTITION {quoted(FIRST)}, {quoted(name)} INTO", 1
        )
        try:
            await self._briefly(merged)
        except StoreBusy:
            # An empty partition that stays costs little.
            return

    async def _has_rows(self, period: Period) -> bool:
        there = await tables_there(self._connection, self._schema, [apart_name(self._tables, period.name)])
        return bool(there) and bool(await self._fetch(f"SELECT 1 FROM {self._apart(period)} LIMIT 1"))

"""The writing of one group into PostgreSQL: a connection of its own, its lock, its partitions, its transactions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from backends.base import StoreUnavailable
from backends.columns.filling import ledger_rows, revised_with_late
from backends.columns.stored import POSITION
from backends.postgresql.protocol.connection import MESSAGE_BYTES, Connection, in_messages
from backends.postgresql.protocol.copy import arrays_format, encode_arrays, encode_ledger, encode_rows
from backends.postgresql.protocol.sql import begin_batch, leaf_of, literal, quoted, take_out_arrays
from backends.postgresql.server.driver import DRIVER
from backends.postgresql.writing.partitioner import PostgresqlPartitioner
from backends.postgresql.writing.single import is_single, single_parameters, single_statement
from backends.sql.decimation import not_there, periods_dropped, see_not_dropped, stored_again
from backends.sql.tables import GroupTables
from backends.sql.writing import GroupWriter
from schemas.batch import Batch, Durability, JournalPosition, Layout
from schemas.config import DatabaseConfig
from schemas.readings import Array

LEDGER_ROWS_WITH_BEGIN = 4
"""So few ledger rows go along as text with the statement that begins: a round trip less for a single trigger."""


class PostgresqlGroupWriter(GroupWriter[Connection]):
    """Writes one group by COPY, or a batch of one trigger by one statement.

    place: tablespace of new partitions; None is the database's own.
    """

    def __init__(
        self, tables: GroupTables, database: DatabaseConfig, *, place: str | None = None, **writer: Any
    ) -> None:
        partitioner = PostgresqlPartitioner(
            tables, database.schema_name, database.partition, database.partitions_ahead, place
        )
        super().__init__(DRIVER, partitioner, tables, database, **writer)
        self._synchronous = self._in_force = "on"
        self._prepared: tuple[str, PreparedStatement[Any]] | None = None

    async def commit(self, batch: Batch) -> None:
        """Commit a batch in one transaction, or find that it is there."""
        async with self._session() as connection:
            into = await self._partition_of(connection, batch)
            closed = await self._closed(connection, batch, into)
            if is_single(batch) and closed is None:
                await self._commit_single(connection, batch, into)
            else:
                await self._commit_by_copy(connection, batch, into, closed)

    async def _commit_single(self, connection: Connection, batch: Batch, into: str) -> None:
        is_rows = self._tables.layout is Layout.ROWS
        payload = encode_rows(batch, batch.group) if is_rows else encode_arrays(batch, batch.group)
        await self._set_durability(connection, batch.durability)
        with self._gone_partition(self._tables.data.name + leaf_of(into)):
            statement = await self._single(connection, into)
            self._prepared = None  # where it fails: the table may have been altered
            moved = await statement.fetchval(*single_parameters(batch, self._tables, payload))
            self._prepared = into, statement
        if moved:
            self._has(batch)
        else:
            await self._check_position(connection, batch)

    async def _single(self, connection: Connection, into: str) -> "PreparedStatement[Any]":
        """The statement for single triggers; prepared once for each partition, or it would cost two round trips."""
        if self._prepared is None or self._prepared[0] != into:
            text = single_statement(self._tables, schema=self._schema, logger=self._logger, into=into)
            self._prepared = into, await connection.prepare(text)
        return self._prepared[1]

    async def rehearse(self, batch: Batch) -> None:
        """Go through the transaction of a batch, and take it back; what is checked at its end is checked before."""
        async with self._session(rehearses=True) as connection:
            into = await self._partition_of(connection, batch)
            closed = await self._closed(connection, batch, into)
            end = "SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK"
            await self._commit_by_copy(connection, batch, into, closed, end)

    async def _commit_by_copy(
        self, connection: Connection, batch: Batch, into: str, closed: str | None, end: str = "COMMIT"
    ) -> None:
        ledger = ledger_rows(batch)
        with_begin = len(ledger) <= LEDGER_ROWS_WITH_BEGIN
        rows = encode_rows(batch, batch.group) if self._tables.layout is Layout.ROWS else None
        if not await self._begin(connection, batch, ledger if with_begin else None, closed):
            return
        if rows is None:
            rows = await self._arrays(connection, batch)
        await self._copy(connection, self._tables.data.name + leaf_of(into), rows)
        if not with_begin:
            payload = encode_ledger(ledger, batch.group.size, self._logger.encode())
            await self._copy(connection, self._tables.ledger.name + into, payload)
        outcome = await connection.execute(end)
        if not end.endswith(outcome):
            raise StoreUnavailable(f"{self._target} rolled the batch back")
        if end == "COMMIT":
            self._has(batch)

    async def _prepare(self, connection: Connection) -> None:
        self._prepared = None
        await super()._prepare(connection)
        self._synchronous = self._in_force = await connection.fetchval("SELECT current_setting('synchronous_commit')")

    async def _position(self, connection: Connection, owner: str) -> JournalPosition | None:
        found = await connection.fetchrow(
            f"SELECT {', '.join(POSITION)} FROM {quoted(self._schema, 'positions')}"
            " WHERE logger = $1 AND group_name = $2",
            *(owner, self._tables.group.name),
        )
        return JournalPosition(**found) if found else None

    def _ledger(self, into: str) -> str:
        return quoted(self._schema, self._tables.ledger.name + into)

    async def _keys(self, connection: Connection, select: str) -> Sequence[tuple[int, int]]:
        return [(row["run"], row["trigger_id"]) for row in await connection.fetch(select)]

    async def _insert_position(self, connection: Connection) -> None:
        # ON CONFLICT needs the key, which a restore makes when all rows are there: until then nothing is written.
        await connection.execute(
            f"INSERT INTO {quoted(self._schema, 'positions')} (logger, group_name, sequence) VALUES ($1, $2, 0)"
            " ON CONFLICT (logger, group_name) DO NOTHING",
            *(self._logger, self._tables.group.name),
        )

    async def _begin(self, connection: Connection, batch: Batch, ledger: Array | None, closed: str | None) -> bool:
        text = begin_batch(
            batch,
            self._tables,
            schema=self._schema,
            logger=self._logger,
            synchronous=self._wanted(batch.durability),
            ledger=ledger,
            closed=closed,
        )
        if not (await connection.execute(text)).endswith(" 0"):
            return True
        await connection.execute("ROLLBACK")
        await self._check_position(connection, batch)
        return False

    def _wanted(self, durability: Durability) -> str:
        return self._synchronous if durability is Durability.SYNC else "off"

    async def _set_durability(self, connection: Connection, durability: Durability) -> None:
        """Set what a statement without a transaction of its own commits with; a round trip only where it changes."""
        wanted = self._wanted(durability)
        if wanted != self._in_force:
            await connection.execute(f"SET synchronous_commit = {wanted}")
            self._in_force = wanted

    async def _arrays(self, connection: Connection, batch: Batch) -> Array:
        earlier = None
        if len(revised_with_late(batch)):
            taken = bytearray()

            async def take(chunk: bytes) -> None:
                taken.extend(chunk)

            await connection.copy_from_query(
                take_out_arrays(batch, self._tables, self._schema), output=take, format="binary"
            )
            earlier = arrays_format(batch.group).parse(taken)
            again = not_there(batch, earlier)
            if len(again):
                of = quoted(self._schema, "dropped"), literal(batch.group.name)
                dropped = [tuple(row) for row in await connection.fetch(periods_dropped(again, *of))]
                see_not_dropped(again, dropped)
                await connection.execute(";".join(stored_again(again, *of)))
        return encode_arrays(batch, batch.group, earlier)

    async def _copy(self, connection: Connection, table: str, payload: Array) -> None:
        # asyncpg sends a buffer without waiting for the server to be ready for it: one round trip a COPY.
        source: Any = payload if payload.nbytes <= MESSAGE_BYTES else in_messages(payload)
        with self._gone_partition(table):
            await connection.copy_to_table(table, schema_name=self._schema, source=source, format="binary")

    @contextmanager
    def _gone_partition(self, table: str) -> Iterator[None]:
        """Turn a partition's absence into something that passes: a new connection looks for partitions again."""
        try:
            yield
        except asyncpg.UndefinedTableError:
            if "$" not in table:
                raise
            # Taken away by an operator.
            raise StoreUnavailable(f"partition {table!r} is gone from {self._target}") from None

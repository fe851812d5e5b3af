"""The writing of one group into PostgreSQL: a connection of its own, its lock, its partitions, its transactions."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import numpy as np
from asyncpg.prepared_stmt import PreparedStatement

from backends.base import BatchRejected, GroupLocked, StoreUnavailable, see_not_behind
from backends.columns.filling import ledger_rows, revised_with_late
from backends.columns.partitions import Partition, Stretch, partitions_of
from backends.postgresql.protocol.connection import MESSAGE_BYTES, Connection, give_back, in_messages
from backends.postgresql.protocol.copy import arrays_format, encode_arrays, encode_ledger, encode_rows
from backends.postgresql.protocol.sql import begin_batch, create_partition, quoted, take_out_arrays
from backends.postgresql.server.errors import one_line, translated
from backends.postgresql.server.locks import NotGranted, take
from backends.postgresql.writing.single import is_single, single_parameters, single_statement
from backends.sql.tables import GroupTables
from schemas.batch import Batch, Durability, JournalPosition, Layout, Stream, position_owner
from schemas.readings import Array

log = logging.getLogger(__name__)

LEDGER_ROWS_WITH_BEGIN = 4
"""So few ledger rows go along as text with the statement that begins: a round trip less for a single trigger."""
GROUP_LOCK_TIMEOUT_S = 5.0
"""A server may need a moment to notice that the daemon before us was killed."""
PARTITION_LOCK_TIMEOUT = "500ms"
PARTITION_RETRY_S = 60.0
IS_PARTITION = """
    SELECT relispartition AND has_table_privilege(oid, 'INSERT') FROM pg_class WHERE oid = to_regclass($1)
"""
"""Whether a table is a partition that may be written to by its own name; NULL when it is not there."""


class GroupWriter:
    """Writes one group of one logger; calls are put one after the other."""

    def __init__(
        self,
        *,
        tables: GroupTables,
        schema: str,
        logger: str,
        target: str,
        connect: Callable[[], Awaitable[Connection]],
        timeout_s: float,
        stretch: Stretch,
        ahead: int,
    ) -> None:
        self._tables = tables
        self._schema = schema
        self._logger = logger
        self._target = target
        self._connect = connect
        self._timeout_s = timeout_s
        self._stretch: Stretch = stretch
        self._ahead = ahead
        self._connection: Connection | None = None
        self._synchronous = self._in_force = "on"
        self._turn = asyncio.Lock()
        self._partitions: set[Partition] = set()
        self._made: set[Partition] = set()
        self._newest: Partition | None = None
        self._refused_at: float | None = None
        self._prepared: tuple[str, PreparedStatement[Any]] | None = None

    async def open(self) -> None:
        """Connect, take the group's lock and make the partitions of now."""
        async with self._session() as connection:
            await self._make_partitions(connection, np.array([time.time_ns()]))

    async def close(self) -> None:
        """Give the lock and the connection back."""
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None:
                await give_back(connection)

    async def position(self, stream: Stream) -> JournalPosition | None:
        """Up to where the database holds the group.

        Asked under the group's lock, so that no transaction of a connection that was lost can still be under way.
        """
        async with self._session() as connection:
            found = await self._position(connection, stream)
        return found if found and found.sequence else None

    async def commit(self, batch: Batch) -> None:
        """Commit a batch in one transaction, or find that it is there."""
        if is_single(batch):
            await self._commit_single(batch)
        else:
            await self._commit_by_copy(batch)

    async def _commit_single(self, batch: Batch) -> None:
        is_rows = self._tables.layout is Layout.ROWS
        payload = encode_rows(batch, batch.group) if is_rows else encode_arrays(batch, batch.group)
        async with self._session() as connection:
            into = await self._make_partitions(connection, self._times(batch))
            await self._set_durability(connection, batch.durability)
            with self._gone_partition(self._tables.data.name + into):
                statement = await self._single(connection, into)
                moved = await statement.fetchval(*single_parameters(batch, self._tables, payload))
            if not moved:
                await self._check_position(connection, batch)

    async def _single(self, connection: Connection, into: str) -> "PreparedStatement[Any]":
        """The statement for single triggers; prepared once for each partition, or it would cost two round trips."""
        if self._prepared is None or self._prepared[0] != into:
            text = single_statement(self._tables, schema=self._schema, logger=self._logger, into=into)
            self._prepared = into, await connection.prepare(text)
        return self._prepared[1]

    async def rehearse(self, batch: Batch) -> None:
        """Go through the transaction of a batch, and take it back; what is checked at its end is checked before."""
        await self._commit_by_copy(batch, end="SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK")

    async def _commit_by_copy(self, batch: Batch, end: str = "COMMIT") -> None:
        ledger = ledger_rows(batch)
        with_begin = len(ledger) <= LEDGER_ROWS_WITH_BEGIN
        rows = encode_rows(batch, batch.group) if self._tables.layout is Layout.ROWS else None
        async with self._session() as connection:
            into = await self._make_partitions(connection, self._times(batch))
            if not await self._begin(connection, batch, ledger if with_begin else None):
                return
            if rows is None:
                rows = await self._arrays(connection, batch)
            await self._copy(connection, self._tables.data.name + into, rows)
            if not with_begin:
                payload = encode_ledger(ledger, batch.group.size, self._logger.encode())
                await self._copy(connection, self._tables.ledger.name + into, payload)
            outcome = await connection.execute(end)
            if not end.endswith(outcome):
                raise StoreUnavailable(f"{self._target} rolled the batch back")

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Connection]:
        """The group's connection, in its turn and with its time limit.

        Whatever goes wrong ends the connection: half a COPY or half a transaction must never be met again.
        """
        async with self._turn:
            try:
                with translated(self._target, otherwise=BatchRejected):
                    async with asyncio.timeout(self._timeout_s):
                        yield await self._connected()
            except BaseException:
                if self._connection is not None:
                    self._connection.terminate()
                    self._connection = None
                raise

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect()
            self._partitions, self._made, self._newest, self._prepared = set(), set(), None, None
            await self._lock(self._connection)
            stated = await self._connection.fetchval("SELECT current_setting('synchronous_commit')")
            # What the server's operator set may be stronger than `on` (remote_apply) or survive its crash too (local).
            self._synchronous = "on" if stated == "off" else stated
            self._in_force = stated
        return self._connection

    async def _lock(self, connection: Connection) -> None:
        try:
            await take(connection, f"{self._schema}.{self._tables.group.name}", GROUP_LOCK_TIMEOUT_S)
        except NotGranted:
            raise GroupLocked(
                f"group {self._tables.group.name!r} in schema {self._schema!r} is being written by another daemon"
                " (or through a connection the server has not given up yet); stop that one, or set another `schema`"
            ) from None

    async def _position(self, connection: Connection, stream: Stream = Stream.JOURNAL) -> JournalPosition | None:
        found = await connection.fetchrow(
            f"SELECT sequence, triggers, readings FROM {quoted(self._schema, 'positions')}"
            " WHERE logger = $1 AND group_name = $2",
            *(position_owner(self._logger, stream), self._tables.group.name),
        )
        return JournalPosition(**found) if found else None

    async def _begin(self, connection: Connection, batch: Batch, ledger: Array | None) -> bool:
        synchronous = self._wanted(batch.durability)
        text = begin_batch(
            batch, self._tables, schema=self._schema, logger=self._logger, synchronous=synchronous, ledger=ledger
        )
        if not (await connection.execute(text)).endswith(" 0"):
            return True
        await connection.execute("ROLLBACK")
        if batch.stream is Stream.JOURNAL:
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

    async def _check_position(self, connection: Connection, batch: Batch) -> None:
        """See that a position which did not move is there at all, and not behind."""
        found = await self._position(connection)
        if found is not None:
            see_not_behind(found, batch)
            return
        await connection.execute(
            f"INSERT INTO {quoted(self._schema, 'positions')} (logger, group_name, sequence) VALUES ($1, $2, 0)",
            *(self._logger, batch.group.name),
        )
        raise StoreUnavailable(f"the position of group {batch.group.name!r} was gone from the database")

    async def _arrays(self, connection: Connection, batch: Batch) -> Array:
        earlier = None
        if len(revised_with_late(batch)):
            taken = bytearray()

            async def take(piece: bytes) -> None:
                taken.extend(piece)

            await connection.copy_from_query(
                take_out_arrays(batch, self._tables, self._schema), output=take, format="binary"
            )
            earlier = arrays_format(batch.group).parse(taken)
        return encode_arrays(batch, batch.group, earlier)

    async def _copy(self, connection: Connection, table: str, payload: Array) -> None:
        # asyncpg sends a buffer without waiting for the server to be ready for it: one round trip a COPY.
        source: Any = payload if payload.nbytes <= MESSAGE_BYTES else in_messages(payload)
        with self._gone_partition(table):
            await connection.copy_to_table(table, schema_name=self._schema, source=source, format="binary")

    @contextmanager
    def _gone_partition(self, table: str) -> Iterator[None]:
        """Turn a partition's absence into something that passes: a new connection looks for partitions anew."""
        try:
            yield
        except asyncpg.UndefinedTableError:
            if "$" not in table:
                raise
            # Taken away by an operator.
            raise StoreUnavailable(f"partition {table!r} is gone from {self._target}") from None

    def _times(self, batch: Batch) -> Array:
        times = [batch.ledger["time_ns"], batch.revised["time_ns"]]
        if self._tables.layout is Layout.ROWS:
            readings = batch.readings["time_ns"]
            times += [readings.ravel() if batch.present.all() else readings[batch.present], batch.late["time_ns"]]
        return np.concatenate(times)

    async def _make_partitions(self, connection: Connection, times: Array) -> str:
        """Make the partitions that times need; say into which one all of them go, by the end of its tables' names.

        Empty means to leave it to the server, which takes a sixth longer for a COPY of single readings.
        """
        newest = self._newest
        if newest and times.size and times.min() >= newest.start_ns and times.max() < newest.end_ns:
            return f"${newest.label}"
        await self._make_missing(connection, times)
        return ""

    async def _make_missing(self, connection: Connection, times: Array) -> None:
        wanted = partitions_of(times, time.time_ns(), self._stretch, self._ahead)
        if not self._partitions.issuperset(wanted):
            if self._refused_at is not None and time.monotonic() - self._refused_at < PARTITION_RETRY_S:
                return
            for partition in wanted:
                if partition not in self._partitions:
                    await self._make_partition(connection, partition)
        if wanted and self._made.issuperset(wanted):
            self._newest = wanted[-1 - self._ahead]

    async def _make_partition(self, connection: Connection, partition: Partition) -> None:
        """Make a partition in a transaction of its own; where it cannot be made, readings go to the default one."""
        attached = True
        try:
            for table in (self._tables.data.name, self._tables.ledger.name):
                async with connection.transaction():
                    await connection.execute(f"SET LOCAL lock_timeout = '{PARTITION_LOCK_TIMEOUT}'")
                    name = quoted(self._schema, f"{table}${partition.label}")
                    there = await connection.fetchval(IS_PARTITION, name)
                    if there is None:
                        await connection.execute(";".join(create_partition(self._schema, table, partition)))
                    attached &= there is not False
        except asyncpg.CheckViolationError:
            log.warning("partition %s: the default partition holds its readings, which stay there", partition.label)
        except asyncpg.InsufficientPrivilegeError as error:
            reason = one_line(error)
            log.warning("partition %s cannot be made: %s; the default partition holds it", partition.label, reason)
        except asyncpg.LockNotAvailableError as error:
            self._refused_at = time.monotonic()
            log.warning("partition %s cannot be made now: %s", partition.label, one_line(error))
            return
        else:
            # One that an operator has detached, or made without telling its rights, is no place to write to by name.
            if attached:
                self._made.add(partition)
        self._partitions.add(partition)

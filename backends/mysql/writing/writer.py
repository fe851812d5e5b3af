"""The writing of one group into MariaDB or MySQL: a connection of its own, its lock, partitions and transactions."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import numpy as np
from pymysql.err import MySQLError

from backends.base import BatchRejected, GroupLocked, SchemaMismatch, StoreUnavailable, see_not_behind
from backends.columns.filling import Columns, ledger_rows, revised_with_late
from backends.columns.partitions import Stretch
from backends.mysql.protocol.bulk import ROOM, Insert, Inserter
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import GroupFormats, lay_arrays, lay_ledger, lay_rows, parse_arrays
from backends.mysql.protocol.sql import begin_batch, insert_into, literal, quoted, see_arrays, take_out_arrays
from backends.mysql.server.errors import GONE_PARTITION, number_of, translated
from backends.mysql.server.locks import NotGranted, take
from backends.mysql.writing.partitioner import Partitioner
from backends.sql.tables import GroupTables
from schemas.batch import Batch, JournalPosition, Layout, Stream, position_owner
from schemas.readings import Array

GROUP_LOCK_TIMEOUT_S = 5.0
"""A server may need a moment to notice that the daemon before us was killed."""
AHEAD_BYTES = 64 * 1024
"""A batch up to this is sent whole before the server's first answer, which saves a round trip."""


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
        self._partitioner = Partitioner(tables, schema, stretch, ahead)
        self._connection: Connection | None = None
        self._inserter: Inserter | None = None
        self._formats: GroupFormats = GroupFormats(tables.group, indicated=True)
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Connect, take the group's lock and make the partitions of now."""
        async with self._session() as connection:
            self._check_width(connection)
            await self._partitioner.make(connection, np.array([time.time_ns()]))

    async def close(self) -> None:
        """Give the lock and the connection back."""
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None:
                try:
                    async with asyncio.timeout(2):
                        await connection.ensure_closed()
                except (OSError, TimeoutError, MySQLError):
                    connection.terminate()

    async def position(self, stream: Stream) -> JournalPosition | None:
        """Up to where the database holds the group.

        Asked under the group's lock, so that no transaction of a connection that was lost can still be under way.
        """
        async with self._session() as connection:
            found = await self._position(connection, stream)
        return found if found and found.sequence else None

    async def commit(self, batch: Batch) -> None:
        """Commit a batch in one transaction, or find that it is there."""
        async with self._session() as connection:
            into = await self._partitioner.make(connection, self._times(batch))
            begin = begin_batch(batch, self._tables, schema=self._schema, logger=self._logger)
            if self._tables.layout is Layout.ARRAYS and len(revised_with_late(batch)):
                moved = await self._commit_with_earlier(connection, batch, begin, into)
            else:
                moved = await self._commit_new(connection, batch, begin, into)
            if not moved:
                await connection.run("ROLLBACK")
                if batch.stream is Stream.JOURNAL:
                    await self._check_position(connection, batch)

    async def rehearse(self, batch: Batch) -> None:
        """Go through the transaction of a batch, and take it back."""
        async with self._session() as connection:
            into = await self._partitioner.make(connection, self._times(batch))
            begin = begin_batch(batch, self._tables, schema=self._schema, logger=self._logger)
            if self._tables.layout is Layout.ARRAYS and len(revised_with_late(batch)):
                await self._commit_with_earlier(connection, batch, begin, into, end="ROLLBACK")
            elif await connection.run(begin):
                await self._insert(connection, self._inserts(batch, None, into), end="ROLLBACK")

    async def _commit_new(self, connection: Connection, batch: Batch, begin: str, into: str) -> bool:
        inserts = self._inserts(batch, None, into)
        if self._formats.indicated and sum(insert.nbytes for insert in inserts) <= AHEAD_BYTES:
            return await self._commit_ahead(connection, inserts, begin)
        return await connection.run(begin) > 0 and await self._insert(connection, inserts)

    async def _commit_with_earlier(
        self, connection: Connection, batch: Batch, begin: str, into: str, end: str = "COMMIT"
    ) -> bool:
        """Commit a batch with late readings for arrays that may be in the table: they are taken out and merged."""
        if not await connection.run(begin):
            return False
        earlier = parse_arrays(await connection.select(see_arrays(batch, self._tables, self._schema)), batch.group)
        await connection.run(take_out_arrays(batch, self._tables, self._schema))
        return await self._insert(connection, self._inserts(batch, earlier, into), end)

    async def _insert(self, connection: Connection, inserts: list[Insert], end: str = "COMMIT") -> bool:
        assert self._inserter is not None
        ahead = self._formats.indicated
        for insert in inserts:
            await self._inserter.prepare(insert)
        waiting = sum([await self._inserter.send(insert, ahead=ahead) for insert in inserts])
        for _ in range(waiting):
            await connection.answer()
        await connection.run(end)
        return True

    async def _commit_ahead(self, connection: Connection, inserts: list[Insert], begin: str) -> bool:
        """Commit in two round trips: everything, then COMMIT if all of it went well."""
        assert self._inserter is not None
        for insert in inserts:
            await self._inserter.prepare(insert)
        await connection.send_text(begin)
        waiting = sum([await self._inserter.send(insert, ahead=True) for insert in inserts])
        moved = await connection.answer() > 0
        for _ in range(waiting):
            try:
                await connection.answer()
            except MySQLError:
                # The batch is there already, and so are its rows: nothing of this is going to be committed.
                if moved or connection.closed:
                    raise
        if moved:
            await connection.run("COMMIT")
        return moved

    def _inserts(self, batch: Batch, earlier: Columns | None, partition: str) -> list[Insert]:
        formats, tables = self._formats, self._tables
        inserts = []
        data, ledger_table = (quoted(self._schema, table.name) + partition for table in (tables.data, tables.ledger))
        if tables.layout is Layout.ROWS:
            form, rows, nulls = lay_rows(batch, formats)
        else:
            form, rows, nulls = formats.arrays, lay_arrays(batch, formats, earlier), None
        if len(rows):
            into, values = insert_into(data, (quoted(field.name) for field in form.fields))
            inserts.append(Insert(into=into, values=values, form=form, rows=rows, nulls=nulls))
        ledger = lay_ledger(ledger_rows(batch), formats)
        if len(ledger):
            names = [quoted(field.name) for field in formats.ledger.fields]
            into, values = insert_into(ledger_table, [*names, "logger"], [literal(self._logger)])
            inserts.append(Insert(into=into, values=values, form=formats.ledger, rows=ledger))
        return inserts

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Connection]:
        """The group's connection, in its turn and with its time limit.

        Whatever goes wrong ends the connection: half a transaction must never be met again.
        """
        async with self._turn:
            try:
                with translated(self._target, otherwise=BatchRejected):
                    async with asyncio.timeout(self._timeout_s):
                        with self._gone_partition():
                            yield await self._connected()
            except BaseException:
                if self._connection is not None:
                    self._connection.terminate()
                    self._connection = None
                raise

    @contextmanager
    def _gone_partition(self) -> Iterator[None]:
        """Turn a partition's absence into something that passes: a new connection looks for partitions anew."""
        try:
            yield
        except MySQLError as error:
            if number_of(error) not in GONE_PARTITION:
                raise
            # Taken away or cut by an operator.
            table = self._tables.data.name
            raise StoreUnavailable(f"a partition of table {table!r} is gone from {self._target}") from error

    async def _connected(self) -> Connection:
        if self._connection is not None and self._connection.closed:
            self._connection.terminate()
            self._connection = None
        if self._connection is None:
            self._connection = await self._connect()
            self._inserter = Inserter(self._connection)
            self._formats = GroupFormats(self._tables.group, indicated=self._connection.bulk)
            self._partitioner.forget()
            await self._lock(self._connection)
        return self._connection

    async def _lock(self, connection: Connection) -> None:
        name = self._tables.group.name
        try:
            await take(connection, f"group {self._schema}.{name}", GROUP_LOCK_TIMEOUT_S)
        except NotGranted:
            raise GroupLocked(
                f"group {name!r} in schema {self._schema!r} is being written by another daemon"
                " (or through a connection the server has not given up yet); stop that one, or set another `schema`"
            ) from None

    def _check_width(self, connection: Connection) -> None:
        """See that the widest row goes into a packet."""
        form = self._formats.arrays if self._tables.layout is Layout.ARRAYS else self._formats.rows
        most = min(connection.max_packet, 1 << 24) - ROOM
        if form.dtype.itemsize > most:
            raise SchemaMismatch(
                f"a trigger of group {self._tables.group.name!r} takes {form.dtype.itemsize} bytes, more than"
                f" {self._target} takes at once ({most}): set max_allowed_packet there to 16M, or `layout` to 'rows'"
            )

    async def _position(self, connection: Connection, stream: Stream = Stream.JOURNAL) -> JournalPosition | None:
        found = await connection.fetch(
            f"SELECT sequence, triggers, readings FROM {quoted(self._schema, 'positions')}"
            f" WHERE {self._of_group(stream)}"
        )
        if not found:
            return None
        sequence, triggers, readings = map(int, found[0])
        return JournalPosition(sequence=sequence, triggers=triggers, readings=readings)

    def _of_group(self, stream: Stream) -> str:
        owner = position_owner(self._logger, stream)
        return f"logger = {literal(owner)} AND group_name = {literal(self._tables.group.name)}"

    async def _check_position(self, connection: Connection, batch: Batch) -> None:
        """See that a position which did not move is there at all, and not behind."""
        found = await self._position(connection)
        if found is not None:
            see_not_behind(found, batch)
            return
        name = batch.group.name
        await connection.run(
            f"INSERT INTO {quoted(self._schema, 'positions')} (logger, group_name, sequence)"
            f" VALUES ({literal(self._logger)}, {literal(name)}, 0)"
        )
        raise StoreUnavailable(f"the position of group {name!r} was gone from the database")

    def _times(self, batch: Batch) -> Array:
        times = [batch.ledger["time_ns"], batch.revised["time_ns"]]
        if self._tables.layout is Layout.ROWS:
            readings = batch.readings["time_ns"]
            times += [readings.ravel() if batch.present.all() else readings[batch.present], batch.late["time_ns"]]
        return np.concatenate(times)

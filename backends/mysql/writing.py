"""The writing of one group into MariaDB or MySQL: a connection of its own, its lock, partitions and transactions."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pymysql.err import MySQLError

from backends.base import SchemaMismatch, StoreUnavailable
from backends.columns.filling import Columns, ledger_rows, revised_with_late
from backends.columns.partitions import Partition, PartitionUnit
from backends.columns.stored import POSITION
from backends.mysql.protocol.bulk import ROOM, Insert, Inserter
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import GroupFormats, lay_arrays, lay_ledger, lay_rows, parse_arrays
from backends.mysql.protocol.sql import (
    COMMIT,
    ROLLBACK,
    begin_batch,
    insert_into,
    literal,
    quoted,
    see_arrays,
    take_out_arrays,
)
from backends.mysql.schema.partitions import (
    MOVED_AT_MOST,
    Range,
    cut,
    how_full,
    listing,
    name_of,
    parts_to_cut,
    ranges_of,
    reorganize,
)
from backends.mysql.server.driver import DRIVER, LEAST_PATIENCE_S, briefly
from backends.mysql.server.errors import GONE_PARTITION, LOCK_WAIT, NO_RIGHT, is_row_fault, number_of, one_line
from backends.sql.connection import LockNotGranted
from backends.sql.decimation import not_there, periods_dropped, see_not_dropped, stored_again
from backends.sql.partitioner import Partitioner
from backends.sql.tables import GroupTables
from backends.sql.writing import GroupWriter
from schemas.batch import Batch, JournalPosition, Layout
from schemas.config import DatabaseConfig

log = logging.getLogger(__name__)


class MysqlPartitioner(Partitioner[Connection]):
    """Cuts the range that has a partition's time; without the right to do so an administrator makes them.

    Without the PARTITION clause a server opens all partitions for every statement: 0.4 ms when there are 400.
    """

    def __init__(self, tables: GroupTables, schema: str, unit: PartitionUnit, ahead: int) -> None:
        super().__init__(tables, schema, unit, ahead)
        self._may_alter = True

    async def _make_one(self, connection: Connection, partition: Partition) -> bool | None:
        there = True
        try:
            for table in self._tables:
                there &= await self._in_table(connection, table, partition)
        except (LockNotGranted, MySQLError) as error:
            is_locked = isinstance(error, LockNotGranted) or number_of(error) in LOCK_WAIT
            if not is_locked and number_of(error) not in NO_RIGHT:
                raise
            log.warning("partition %s cannot be made now: %s", partition.label, one_line(error))
            if is_locked:
                return None
            self._may_alter = False
            return False
        return there

    def _named(self, partition: Partition) -> str:
        return f" PARTITION ({quoted(name_of(partition))})"

    async def _in_table(self, connection: Connection, table: str, partition: Partition) -> bool:
        """Whether the table has the partition now."""
        ranges = ranges_of(await connection.fetch(listing(self._schema, table)))
        if Range(name_of(partition), partition.start_ns, partition.end_ns) in ranges:
            return True
        if not self._may_alter:
            return False
        parts = parts_to_cut(ranges, partition)
        are_cut = [await self._cut(connection, table, part) for part in parts]
        return parts == [partition] and all(are_cut)

    async def _cut(self, connection: Connection, table: str, partition: Partition) -> bool:
        of, parts = cut(ranges_of(await connection.fetch(listing(self._schema, table))), partition)
        ((full,),) = await connection.fetch(how_full(self._schema, table, of))
        if full > MOVED_AT_MOST:
            log.warning(
                "partition %s: %s of table %s holds too many readings to move, which stay there",
                *(partition.label, of.name, table),
            )
            return False
        # It waits for long reads of the table to end, and everybody waits behind it: so not for long.
        await briefly(connection, reorganize(self._schema, table, of, parts), LEAST_PATIENCE_S)
        return True


AHEAD_BYTES = 64 * 1024
"""A batch up to this is sent whole before the server's first answer, which saves a round trip."""


class MysqlGroupWriter(GroupWriter[Connection]):
    """Writes one group by bulk commands, or by statements of many rows."""

    def __init__(self, tables: GroupTables, database: DatabaseConfig, **writer: Any) -> None:
        partitioner = MysqlPartitioner(tables, database.schema_name, database.partition, database.partitions_ahead)
        super().__init__(DRIVER, partitioner, tables, database, **writer)
        self._inserter: Inserter | None = None
        self._formats: GroupFormats = GroupFormats(tables.group, indicated=True)

    async def commit(self, batch: Batch) -> None:
        """Commit a batch in one transaction, or find that it is there."""
        async with self._session() as connection:
            into = await self._partition_of(connection, batch)
            closed = await self._closed(connection, batch, into)
            begin = begin_batch(batch, self._tables, schema=self._schema, logger=self._logger, closed=closed)
            if self._tables.layout is Layout.ARRAYS and len(revised_with_late(batch)):
                moved = await self._commit_with_earlier(connection, batch, begin, into)
            else:
                moved = await self._commit_new(connection, batch, begin, into)
            if moved:
                self._has(batch)
            else:
                await connection.run(ROLLBACK)
                await self._check_position(connection, batch)

    async def rehearse(self, batch: Batch) -> None:
        """Go through the transaction of a batch, and take it back."""
        async with self._session(rehearses=True) as connection:
            into = await self._partition_of(connection, batch)
            closed = await self._closed(connection, batch, into)
            begin = begin_batch(batch, self._tables, schema=self._schema, logger=self._logger, closed=closed)
            if self._tables.layout is Layout.ARRAYS and len(revised_with_late(batch)):
                moved = await self._commit_with_earlier(connection, batch, begin, into, end=ROLLBACK)
            else:
                moved = await connection.run(begin) > 0
                if moved:
                    await self._insert(connection, self._inserts(batch, None, into), end=ROLLBACK)
            if not moved:
                await connection.run(ROLLBACK)
                await self._check_position(connection, batch)

    async def _commit_new(self, connection: Connection, batch: Batch, begin: str, into: str) -> bool:
        inserts = self._inserts(batch, None, into)
        if self._formats.indicated and sum(insert.nbytes for insert in inserts) <= AHEAD_BYTES:
            return await self._commit_ahead(connection, inserts, begin)
        return await connection.run(begin) > 0 and await self._insert(connection, inserts)

    async def _commit_with_earlier(
        self, connection: Connection, batch: Batch, begin: str, into: str, end: str = COMMIT
    ) -> bool:
        """Commit a batch with late readings for arrays that may be in the table: they are taken out and merged."""
        if not await connection.run(begin):
            return False
        earlier = parse_arrays(await connection.select(see_arrays(batch, self._tables, self._schema)), batch.group)
        await connection.run(take_out_arrays(batch, self._tables, self._schema))
        again = not_there(batch, earlier)
        if len(again):
            of = quoted(self._schema, "dropped"), literal(batch.group.name)
            see_not_dropped(again, await connection.fetch(periods_dropped(again, *of)))
            for statement in stored_again(again, *of):
                await connection.run(statement)
        return await self._insert(connection, self._inserts(batch, earlier, into), end)

    async def _insert(self, connection: Connection, inserts: list[Insert], end: str = COMMIT) -> bool:
        assert self._inserter is not None
        ahead = self._formats.indicated
        for insert in inserts:
            await self._inserter.prepare(insert)
        waiting = sum([await self._inserter.send(insert, ahead=ahead) for insert in inserts])
        refused = await _refusal(connection, waiting)
        if refused is not None:
            raise refused
        await connection.run(end)
        return True

    async def _commit_ahead(self, connection: Connection, inserts: list[Insert], begin: str) -> bool:
        """Commit in two round trips: everything, then COMMIT if all of it went well."""
        assert self._inserter is not None
        for insert in inserts:
            await self._inserter.prepare(insert)
        await connection.send_text(begin)
        waiting = sum([await self._inserter.send(insert, ahead=True) for insert in inserts])
        try:
            moved = await connection.answer() > 0
        except MySQLError as error:
            if not _ends(connection, error):
                await _refusal(connection, waiting)
            raise
        refused = await _refusal(connection, waiting)
        # Where it did not move the batch is there already, and so are its rows: nothing of this is committed.
        if moved and refused is not None:
            raise refused
        if moved:
            await connection.run(COMMIT)
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

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        with super()._guarded(), self._gone_partition():
            yield

    @contextmanager
    def _gone_partition(self) -> Iterator[None]:
        """Turn a partition's absence into something that passes: a new connection looks for partitions again."""
        try:
            yield
        except MySQLError as error:
            if number_of(error) not in GONE_PARTITION:
                raise
            # Taken away or cut by an operator.
            table = self._tables.data.name
            raise StoreUnavailable(f"a partition of table {table!r} is gone from {self._target}") from error

    async def _prepare(self, connection: Connection) -> None:
        self._inserter = Inserter(connection)
        self._formats = GroupFormats(self._tables.group, indicated=connection.bulk)
        await super()._prepare(connection)

    async def _check(self, connection: Connection) -> None:
        """See that the widest row goes into a packet."""
        check_packet(connection, self._tables, self._target)

    async def _position(self, connection: Connection, owner: str) -> JournalPosition | None:
        found = await connection.fetch(
            f"SELECT {', '.join(POSITION)} FROM {quoted(self._schema, 'positions')}"
            f" WHERE logger = {literal(owner)} AND group_name = {literal(self._tables.group.name)}"
        )
        return JournalPosition(**dict(zip(POSITION, found[0], strict=True))) if found else None

    def _ledger(self, into: str) -> str:
        return quoted(self._schema, self._tables.ledger.name) + into

    async def _keys(self, connection: Connection, select: str) -> Sequence[tuple[int, int]]:
        return [(int(run), int(trigger)) for run, trigger in await connection.fetch(select)]

    async def _insert_position(self, connection: Connection) -> None:
        await connection.run(
            f"INSERT INTO {quoted(self._schema, 'positions')} (logger, group_name, sequence)"
            f" VALUES ({literal(self._logger)}, {literal(self._tables.group.name)}, 0)"
        )


async def _refusal(connection: Connection, waiting: int) -> MySQLError | None:
    """Take all answers that are due, since the connection goes on where rows are refused; the first that refuses."""
    first = None
    for _ in range(waiting):
        try:
            await connection.answer()
        except MySQLError as error:
            if _ends(connection, error):
                raise
            first = first or error
    return first


def _ends(connection: Connection, error: MySQLError) -> bool:
    """Whether the connection ends with an error: no answer that is still due is worth waiting for.

    After a deadlock what was sent ahead begins another transaction, which may wait for a lock of the rival's.
    """
    return connection.closed or not is_row_fault(error)


def check_packet(connection: Connection, tables: GroupTables, target: str) -> None:
    """See that the widest row of a group goes into a packet.

    Raises:
        SchemaMismatch: it does not.
    """
    formats = GroupFormats(tables.group, indicated=connection.bulk)
    is_arrays = tables.layout is Layout.ARRAYS
    nbytes, most = (formats.arrays if is_arrays else formats.rows).dtype.itemsize, connection.max_packet
    if nbytes > min(most, 1 << 24) - ROOM:
        other = ", or `layout` to 'rows'" if is_arrays else ""
        raise SchemaMismatch(
            f"a {'trigger' if is_arrays else 'reading'} of group {tables.group.name!r} takes {nbytes} bytes, too many"
            f" for the packets of {target} ({most} bytes): set max_allowed_packet there to 16M{other}"
        )

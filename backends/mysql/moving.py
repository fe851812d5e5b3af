"""Moving a period into another directory of MariaDB or MySQL: its partition is copied in steps, and exchanged.

The partition has all its readings at every moment; a copy is never the only one that has one, before the exchange and
after it, so that it may be dropped whenever that is. It may be exchanged if three things hold:

1. Nothing of the partition has changed since it was copied. All of it is compared, under locks of its rows that let
   nobody change it; then a second connection holds a lock of the table against all writing (`guard`) until the lock
   that the exchange needs is asked for, which goes before all writing that waits.
2. No transaction is open that saw the database before the copy was complete: the copy's rows are not there for it, and
   it would read a part of them without an error.
3. It takes no longer than the writing may wait. Servers that cannot leave it out read the copy once more.

Nothing tells how far a move is but what is there: the copy, its rows, and its comment once it is complete. A server
commits after each of these statements; a kill between two of them leaves the copy alone, to be gone on with or dropped.
"""

import re
from asyncio import Task, create_task
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from uuid import uuid4

import numpy as np
from pymysql.err import MySQLError

from backends.base import Move, Pace, StoreBusy, StoreError, StoreUnavailable
from backends.columns.stored import STORED_DTYPES
from backends.diagnosis import no_such
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import ROLLBACK, literal, quoted
from backends.mysql.retention import dropping_lock, tables_there
from backends.mysql.schema.partitions import beside, definition_of, place_of, places_of, range_name
from backends.mysql.server.driver import DRIVER, LEAST_PATIENCE_S, briefly, release, take
from backends.mysql.server.errors import ALTERED, GONE_PARTITION, TOO_LONG, number_of
from backends.mysql.server.facts import product_of
from backends.sql.connection import LockNotGranted
from backends.sql.moving import Found, Moving, changed
from backends.sql.tables import GroupTables
from schemas.batch import Layout
from schemas.retention import Period

STEP_BYTES = 8 * 2**20
"""About so much is copied, or compared, at once."""
COPY = "$copy"
"""Ends the name of the copy."""
UNVALIDATED = {"mariadb": (11, 4), "mysql": (8, 0)}
"""Servers that exchange without reading the copy once more, from these versions on."""
OF_POOL = 3
"""One part in so many of the buffer pool, at most, is what is read once more: that much stays there after one look."""
BEFORE_NS = -(2**63) + 1
"""Before all readings that are in a partition of a stretch of time."""
NOTE = re.compile(r" COMMENT='copied by ([0-9: -]+)(?:; not exchanged within ([0-9.]+) s)?'")
"""The comment of a copy that is complete: when the newest of the transactions began that were open then, by the list of
the server; and in how many seconds the exchange was tried in vain."""
OPEN = """
    SELECT trx_mysql_thread_id, CAST(trx_started AS CHAR), trx_state, trx_id, trx_query LIKE '%{token}%'
    FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id <> 0
"""
"""What is new has the asking statement itself: the server answers with what it has, if others have just asked."""
LIST_S, LOOKS = 0.15, 20
"""The server renews the list when nobody has asked for it for that long; how often it is asked."""
WAIT_S = 1.0
"""A writer waits no longer than twice that for rows that are compared, and a step."""
WAITING = "Waiting for table metadata lock"
WRITES_FIRST = 1_000_000
"""With a small max_write_lock_count the server lets other writing go before a lock that excludes it."""


@dataclass(frozen=True, kw_only=True)
class _Found(Found):
    """A period as it lies there.

    definition: the text that makes the group's table. is_copied: whether the copy is complete.
    """

    definition: str
    is_copied: bool = False


@dataclass(frozen=True, kw_only=True)
class _Open:
    """A transaction that is open: of which session, since when, and whether it waits for a lock of a row."""

    session: int
    started: str
    number: int
    waits: bool


class MysqlMoving(Moving[Connection, _Found]):
    """Moves periods of one group over one connection.

    connect: makes another. held_most_s: the writing may wait so long for the exchange.
    """

    driver = DRIVER

    def __init__(
        self,
        connection: Connection,
        tables: GroupTables,
        *,
        patience_s: float,
        connect: Callable[[], Awaitable[Connection]],
        held_most_s: float,
    ) -> None:
        super().__init__(connection, tables, patience_s=patience_s)
        self._connect = connect
        self._held_most_s = held_most_s
        self._name = tables.data.name
        self._table = quoted(self._schema, self._name)
        product = product_of(connection.version)
        self._validates = product.numbers < UNVALIDATED[product.backend]

    async def under_way(self) -> list[Move]:
        """The moves that were begun and have not ended."""
        rows = await self._connection.fetch(
            f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = {literal(self._schema)}"
            f" AND TABLE_NAME LIKE '%{COPY}' ORDER BY TABLE_NAME"
        )
        copies = re.compile(rf"{re.escape(self._name)}\$([^$]+){re.escape(COPY)}")
        names = [found[1] for (name,) in rows if (found := copies.fullmatch(str(name)))]
        return [
            Move(group=self._tables.group.name, name=name, place=place_of(await self._definition_of(name)))
            for name in names
        ]

    async def _found(self, period: Period) -> _Found:
        definition = await definition_of(self._connection, self._schema, self._name)
        places = places_of(definition)
        name = range_name(period.name)
        if name not in places:
            raise no_such(period)
        if name == period.name:
            raise StoreError(f"{period.name} of group {period.group} takes what fits no other partition, and stays")
        if not await tables_there(self._connection, self._schema, [f"{self._name}${period.name}{COPY}"]):
            return _Found(definition=definition, place=places[name], copied_to=None, is_begun=False)
        copy = await self._definition_of(period.name)
        return _Found(
            definition=definition,
            place=places[name],
            copied_to=place_of(copy),
            is_begun=True,
            is_copied=NOTE.search(copy) is not None,
        )

    async def _begin(self, period: Period, found: _Found, place: str | None) -> None:
        if self._validates:
            await self._see_room(period)
        await self._give_up(period.name)
        await self._connection.run(beside(found.definition, self._copy_of(period.name), place))
        lies = place_of(await self._definition_of(period.name))
        if lies != place:
            await self._give_up(period.name)
            raise StoreError(f"a table that was to lie in {place or 'the own folder of the server'} lies in {lies}")

    async def _see_room(self, period: Period) -> None:
        ((size, pool),) = await self._connection.fetch(
            "SELECT MAX(DATA_LENGTH), @@innodb_buffer_pool_size FROM information_schema.PARTITIONS"
            f" WHERE TABLE_SCHEMA = {literal(self._schema)} AND TABLE_NAME = {literal(self._name)}"
            f" AND PARTITION_NAME = {literal(range_name(period.name))}"
        )
        if OF_POOL * int(size or 0) > int(pool):
            raise StoreError(
                f"{period.name} of group {period.group} takes {int(size) / 2**20:,.0f} MiB, more than a third of"
                f" innodb_buffer_pool_size ({int(pool) / 2**20:,.0f} MiB): the exchange, which reads it, would hold up"
                " the writing; raise that on the server, or set a shorter `partition` in [database]"
            )

    # --- the copy -----------------------------------------------------------------------------------------------

    async def _copy(self, period: Period, found: _Found, pace: Pace) -> None:
        if found.is_copied:
            return
        copy, source = self._copy_of(period.name), self._source(period)
        columns = ", ".join(await self._columns())
        with _altered(period):
            ((total,),) = await self._connection.fetch(f"SELECT COUNT(*) FROM {source}")
            ((copied, upto_ns),) = await self._connection.fetch(f"SELECT COUNT(*), MAX(time_ns) FROM {copy}")
            async for within in self._steps(source, BEFORE_NS if upto_ns is None else int(upto_ns)):
                await pace(min(1.0, int(copied) / max(1, int(total))))
                # Else it locks what it reads.
                await self._connection.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                copied += await self._connection.run(
                    f"INSERT INTO {copy} ({columns}) SELECT {columns} FROM {source} WHERE {within}"
                )
        await pace(1.0)
        await self._connection.fetch(f"ANALYZE NO_WRITE_TO_BINLOG TABLE {copy}")
        await self._connection.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        copied_by = max(each.started for each in await self._open_now())
        await self._connection.run(f"{ROLLBACK};ALTER TABLE {copy} COMMENT = {literal(f'copied by {copied_by}')}")

    async def _steps(self, source: str, after_ns: int, *, locked: bool = False) -> AsyncIterator[str]:
        """Conditions on the time, each of about STEP_BYTES, in order; together they are all after `after_ns`.

        locked: nobody may change those rows, or add some, until the transaction ends.
        """
        number = _rows_of_step(self._tables)
        lock = " LOCK IN SHARE MODE" if locked else ""
        while True:
            after = f"time_ns > {after_ns}"
            last = f"SELECT time_ns FROM {source} WHERE {after} ORDER BY time_ns LIMIT {number - 1}, 1{lock}"
            found = await self._connection.fetch(last)
            if not found:
                yield after
                return
            after_ns = int(found[0][0])
            yield f"{after} AND time_ns <= {after_ns}"

    async def _columns(self) -> list[str]:
        """The columns that have values, those of an operator, too; quoted."""
        rows = await self._connection.fetch(
            f"SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {literal(self._schema)}"
            f" AND TABLE_NAME = {literal(self._name)} AND EXTRA NOT REGEXP 'VIRTUAL|STORED|PERSISTENT'"
            " ORDER BY ORDINAL_POSITION"
        )
        return [quoted(str(name)) for (name,) in rows]

    # --- the exchange -------------------------------------------------------------------------------------------

    async def _exchange(self, period: Period, found: _Found) -> None:
        lock = dropping_lock(self._schema, self._name)
        try:
            await take(self._connection, lock, LEAST_PATIENCE_S)
        except LockNotGranted:
            raise StoreBusy(f"something of table {self._name!r} is being dropped over another connection") from None
        note = NOTE.search(await self._definition_of(period.name))
        assert note is not None
        copied_by, not_within_s = note[1], float(note[2] or 0)
        self._see_not_too_large(period, not_within_s)
        ((count,),) = await self._connection.fetch("SELECT @@max_write_lock_count")
        if int(count) < WRITES_FIRST:
            raise StoreError(f"max_write_lock_count is {count} on the server; leave it at its default to move readings")
        async with self._unchanged(period, copied_by):
            with _altered(period):
                await self._exchange_now(period, copied_by)
        await self._give_up(period.name)
        await release(self._connection, lock)

    @asynccontextmanager
    async def _unchanged(self, period: Period, copied_by: str) -> AsyncIterator[None]:
        """Hold the group's table and the copy, which has all of the period as it is."""
        await self._connection.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await self._connection.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        await self._see_no_older(copied_by)
        await self._compare(period)
        guard = await self._connect()
        try:
            await self._in_time(guard, f"LOCK TABLES {self._table} READ")
            # From here on nobody writes into the group's table, and nobody has begun to.
            await self._connection.run("COMMIT")
            await self._lock_behind(guard, self._copy_of(period.name))
        finally:
            guard.terminate()
        try:
            yield
        finally:
            if not self._connection.closed:
                await self._connection.run("UNLOCK TABLES")

    async def _compare(self, period: Period) -> None:
        """See that the copy has what the period has, whose rows nobody can change until the transaction ends."""
        source, copy, columns = self._source(period), self._copy_of(period.name), await self._columns()
        same = " AND ".join(f"x.{name} <=> y.{name}" for name in columns)
        keys = " AND ".join(f"x.{quoted(key.name)} = y.{quoted(key.name)}" for key in self._tables.data.primary_key)
        joined = f"{source} x LEFT JOIN {copy} y ON {keys} AND {same}"
        waited, looked_s, compared = frozenset[int](), monotonic(), 0
        with _altered(period):
            async for within in self._steps(source, BEFORE_NS, locked=True):
                ((rows, copied),) = await self._connection.fetch(
                    f"SELECT COUNT(*), COUNT(y.time_ns) FROM {joined}"
                    f" WHERE {within.replace('time_ns', 'x.time_ns')} LOCK IN SHARE MODE"
                )
                if rows != copied:
                    raise changed(period)
                compared += int(rows)
                if monotonic() - looked_s > WAIT_S:
                    waited, looked_s = await self._see_nobody_waits(waited), monotonic()
        # This reads the copy, too, which the exchange may do once more while the writing waits.
        ((copied,),) = await self._connection.fetch(f"SELECT COUNT(*) FROM {copy}")
        if int(copied) != compared:
            raise changed(period)

    async def _see_no_older(self, copied_by: str) -> None:
        """See that nobody has a snapshot from before the copy was complete."""
        for each in await self._others():
            if each.started <= copied_by:
                raise StoreBusy(f"session {each.session} is in a transaction that began before the copy was complete")

    async def _see_nobody_waits(self, waited: frozenset[int]) -> frozenset[int]:
        """See that nobody waits for long, who may wait for us. waited: who did at the last look; returns who does."""
        waits = frozenset(each.number for each in await self._others() if each.waits)
        if waits & waited:
            raise StoreBusy("somebody waits for a lock of a row, maybe of one of those that are compared")
        return waits

    async def _others(self) -> list[_Open]:
        ours = self._connection.thread_id()
        return [each for each in await self._open_now() if each.session != ours]

    async def _open_now(self) -> list[_Open]:
        """The open transactions, with this connection's own."""
        for _ in range(LOOKS):
            rows = await self._connection.fetch(OPEN.format(token=uuid4().hex))
            if any(is_new for *_, is_new in rows):
                return [
                    _Open(session=int(session), started=str(started), number=int(number), waits=state == "LOCK WAIT")
                    for session, started, state, number, _ in rows
                ]
            await self._connection.fetch(f"SELECT SLEEP({LIST_S})")
        raise StoreBusy("others ask for the list of open transactions so often that the server does not renew it")

    async def _lock_behind(self, guard: Connection, copy: str) -> None:
        """Take the locks of both tables from the guard, so that no writing comes between."""
        text = f"LOCK TABLES {self._table} WRITE, {copy} WRITE"
        locking = create_task(self._in_time(self._connection, text))
        try:
            is_next = await self._is_next(guard, locking)
            await guard.run("UNLOCK TABLES")
        except BaseException:
            locking.cancel()
            with suppress(BaseException):
                await locking
            raise
        await locking
        if not is_next:
            raise StoreUnavailable(f"the lock of table {self._name!r} was lost")

    async def _is_next(self, guard: Connection, locking: Task[None]) -> bool:
        """Wait until the lock is asked for. The tables are locked in the order of their names, the group's first."""
        state = f"SELECT STATE FROM information_schema.PROCESSLIST WHERE ID = {self._connection.thread_id()}"
        while not locking.done():
            if (WAITING,) in await guard.fetch(state):
                return True
        return False

    async def _exchange_now(self, period: Period, copied_by: str) -> None:
        name, copy = quoted(range_name(period.name)), self._copy_of(period.name)
        exchange = f"ALTER TABLE {self._table} EXCHANGE PARTITION {name} WITH TABLE {copy}"
        if not self._validates:
            await self._connection.run(f"{exchange} WITHOUT VALIDATION")
            return
        most_s = self._held_most_s
        await self._connection.run(f"SET @most = @@max_statement_time, max_statement_time = {most_s:f}")
        try:
            await self._connection.run(exchange)
        except MySQLError as error:
            if number_of(error) not in TOO_LONG:
                raise
            await self._connection.run("SET max_statement_time = @most;UNLOCK TABLES")
            note = f"copied by {copied_by}; not exchanged within {most_s:f} s"
            await self._connection.run(f"ALTER TABLE {copy} COMMENT = {literal(note)}")
            self._see_not_too_large(period, most_s)
        await self._connection.run("SET max_statement_time = @most")

    def _see_not_too_large(self, period: Period, not_within_s: float) -> None:
        if not_within_s >= self._held_most_s:
            raise StoreError(
                f"{period.name} of group {period.group} is too large to be exchanged within {self._held_most_s:g} s,"
                " while the writing waits; set a shorter `partition` in [database], or raise `command_timeout_s`"
            )

    async def _give_up(self, name: str) -> None:
        await self._in_time(self._connection, f"DROP TABLE IF EXISTS {self._copy_of(name)}")

    async def _in_time(self, connection: Connection, statement: str) -> None:
        try:
            await briefly(connection, statement, self._patience_s)
        except LockNotGranted as error:
            raise StoreBusy(f"table {self._name!r} is in use") from error

    async def _definition_of(self, name: str) -> str:
        return await definition_of(self._connection, self._schema, f"{self._name}${name}{COPY}")

    def _copy_of(self, name: str) -> str:
        return quoted(self._schema, f"{self._name}${name}{COPY}")

    def _source(self, period: Period) -> str:
        return f"{self._table} PARTITION ({quoted(range_name(period.name))})"


@contextmanager
def _altered(period: Period) -> Iterator[None]:
    """The partition was dropped, or the table altered, since the copy was begun."""
    try:
        yield
    except MySQLError as error:
        if number_of(error) not in (*GONE_PARTITION, *ALTERED):
            raise
        raise changed(period) from error


def _rows_of_step(tables: GroupTables) -> int:
    """About how many rows are STEP_BYTES."""
    group = tables.group
    values = sum(np.dtype(STORED_DTYPES[channel.dtype]).itemsize for channel in group.channels)
    row = 40 + (values if tables.layout is Layout.ROWS else group.size * (8 + values))
    return max(1, STEP_BYTES // row)

"""A store in MariaDB or MySQL, named by a DSN."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress

from backends.base import (
    GroupLocked,
    Partition,
    Reading,
    SchemaMismatch,
    ServerView,
    StoreError,
    StoreFacts,
    StoreUnavailable,
)
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import literal
from backends.mysql.reading.queries import answer
from backends.mysql.reading.work import partitions, view
from backends.mysql.schema.schema import Schema
from backends.mysql.schema.tables import mysql_tables
from backends.mysql.server.address import address_of, connect
from backends.mysql.server.errors import login_refused, taken_too_long, translated
from backends.mysql.server.server import SETTINGS, held, product_of
from backends.mysql.writing.writer import GroupWriter
from schemas.batch import Batch, JournalPosition, Layout, Stream
from schemas.config import DatabaseConfig
from schemas.queries import Query, Totals
from schemas.readings import Array, InstrumentGroup

READERS = 4
"""Connections that answer questions at the same time."""

END_WITHIN_S = 2.0
"""How long a store waits at its end for the server to end what nobody waits for any more."""


class MysqlStore:
    """Store in MariaDB 10.6 or MySQL 8.0, or newer; see `backends.base.Store` for what its methods promise.

    Args:
        password: goes before one in the DSN.
        reading: makes a store that is only asked.
        bulk: False sends rows as MySQL takes them even to a MariaDB, which has a faster way.
    """

    def __init__(
        self,
        database: DatabaseConfig,
        *,
        logger: str,
        groups: Mapping[str, InstrumentGroup],
        layouts: Mapping[str, Layout],
        password: str | None = None,
        reading: Reading | None = None,
        bulk: bool = True,
    ) -> None:
        assert database.dsn is not None
        self._database = database
        self._program = f"triggerlog {logger} reader" if reading else f"triggerlog {logger}"
        self._logger = logger
        self._bulk = bulk
        self._address = address_of(database.dsn, password)
        self._target = self._address.target
        schema = database.schema_name
        self._tables = {name: mysql_tables(schema, group, layouts[name]) for name, group in groups.items()}
        self._schema = Schema(
            schema,
            logger,
            self._tables.values(),
            stretch=database.partition,
            ahead=database.partitions_ahead,
        )
        self._writers = {
            name: GroupWriter(
                tables=tables,
                schema=schema,
                logger=logger,
                target=self._target,
                connect=self._connect,
                timeout_s=database.command_timeout_s,
                stretch=database.partition,
                ahead=database.partitions_ahead,
            )
            for name, tables in self._tables.items()
        }
        self._give_up_s = reading.give_up_s if reading else None
        self._reading = asyncio.Semaphore(reading.connections if reading else READERS)
        self._idle: list[Connection] = []
        self._endings: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Create the schema or check it, and take the lock of every group."""
        try:
            with login_refused():
                async with self._reader() as connection:
                    await self._schema.create_or_check(connection)
                for writer in self._writers.values():
                    await writer.open()
        except GroupLocked as error:
            await self.close()
            raise SchemaMismatch(str(error)) from None
        except StoreError:
            await self.close()
            raise

    async def check(self) -> list[str]:
        """Look at the server, the rights and the schema without changing anything."""
        with login_refused():
            async with self._reader() as connection:
                return await self._schema.check(connection)

    async def commit(self, batch: Batch) -> None:
        """Commit a batch in one transaction: position, readings, ledger.

        Durability is the server's (`facts`): no session can ask for another.
        """
        await self._writers[batch.group.name].commit(batch)

    async def rehearse(self, batch: Batch) -> None:
        """Do all of a commit but its end."""
        await self._writers[batch.group.name].rehearse(batch)

    async def position(self, group: str, stream: Stream = Stream.JOURNAL) -> JournalPosition | None:
        """Up to where the database holds the group."""
        return await self._writers[group].position(stream)

    async def ask(self, query: Query) -> Array:
        """Answer a question."""
        within_s = query.within_s if isinstance(query, Totals) else None
        async with self._reader(within_s) as connection:
            return await answer(connection, self._tables[query.group.name], query)

    async def facts(self) -> StoreFacts:
        """Ask the server what it is and what it really does about durability."""
        async with self._reader() as connection:
            wanted = ",".join(literal(name) for name in SETTINGS)
            settings = dict(await connection.fetch(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({wanted})"))
            sizes = await connection.fetch(
                "SELECT TABLE_NAME, TABLE_ROWS, DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES"
                f" WHERE TABLE_SCHEMA = {literal(self._database.schema_name)} AND TABLE_TYPE = 'BASE TABLE'"
            )
            ((version,),) = await connection.fetch("SELECT VERSION()")
        product = product_of(version)
        found = {name: (int(rows or 0), int(size or 0)) for name, rows, size in sizes}
        empty = (0, 0)
        return StoreFacts(
            backend=product.backend,
            version=product.version,
            durability=held(settings),
            settings=settings,
            target=self._target,
            rows={name: found.get(tables.data.name, empty)[0] for name, tables in self._tables.items()},
            size_bytes={
                name: sum(found.get(table.name, empty)[1] for table in (tables.data, tables.ledger))
                for name, tables in self._tables.items()
            },
        )

    async def view(self) -> ServerView:
        """What the server counts of its own work, and what its sessions wait for now."""
        async with self._reader() as connection:
            return await view(connection)

    async def partitions(self) -> Mapping[str, tuple[Partition, ...]]:
        """The partitions of every group; `rows` is the server's estimate."""
        async with self._reader() as connection:
            return await partitions(connection, self._tables.values())

    async def close(self) -> None:
        """Give the connections back."""
        for writer in self._writers.values():
            await writer.close()
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.terminate()
        if self._endings:
            await asyncio.wait(self._endings, timeout=END_WITHIN_S)

    @asynccontextmanager
    async def _reader(self, within_s: float | None = None) -> AsyncIterator[Connection]:
        async with self._reading:
            connection: Connection | None = None
            try:
                with translated(self._target), self._given_up():
                    async with asyncio.timeout(within_s or self._give_up_s or self._database.command_timeout_s):
                        connection = self._take_idle() or await self._connect()
                        yield connection
                self._idle.append(connection)
            except BaseException as error:
                if connection is not None:
                    connection.terminate()
                    if isinstance(error, asyncio.CancelledError) and self._give_up_s is not None:
                        self._end_there(connection.thread_id())
                raise

    def _given_up(self) -> AbstractContextManager[None]:
        return taken_too_long(self._target, self._give_up_s) if self._give_up_s else nullcontext()

    def _end_there(self, session: int) -> None:
        """Have the server end what nobody waits for: it does not notice that its client has gone until it answers."""
        ending = asyncio.create_task(self._kill(session))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _kill(self, session: int) -> None:
        # Where the server is away, or has ended the session already, there is nothing left to end.
        with suppress(StoreError), translated(self._target):
            connection = await self._connect()
            try:
                await connection.run(f"KILL {session}")
            finally:
                connection.terminate()

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
            connection.terminate()
        return None

    async def _connect(self) -> Connection:
        # A batch is never at fault for what goes wrong before there is a connection.
        with translated(self._target, otherwise=StoreUnavailable):
            connection = await connect(
                self._address,
                program=self._program,
                timeout_s=self._database.command_timeout_s,
                give_up_s=self._give_up_s,
            )
        connection.bulk = connection.bulk and self._bulk
        return connection

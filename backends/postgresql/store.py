"""A store in PostgreSQL, named by a DSN or embedded."""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress

import asyncpg

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
from backends.postgresql.protocol.connection import Connection, target_of
from backends.postgresql.protocol.copy import NotBinaryCopy
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.reading import work
from backends.postgresql.reading.queries import answer
from backends.postgresql.schema.schema import Missing, create_or_check, missing_from
from backends.postgresql.server.durability import SETTINGS, held
from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.postgresql.server.errors import login_refused, taken_too_long, translated
from backends.postgresql.writing.writer import GroupWriter
from backends.sql.tables import GroupTables, group_tables
from schemas.batch import Batch, JournalPosition, Layout, Stream
from schemas.config import DatabaseConfig
from schemas.queries import Query, Totals
from schemas.readings import Array, InstrumentGroup

READERS = 4
"""Connections that answer questions at the same time."""

CHECK_CLIENT = "SET client_connection_check_interval = '1s'"
"""A reader that is killed leaves nothing behind that goes on for long."""

VALUES = f"SELECT name, setting FROM pg_settings WHERE name = ANY('{{{','.join(('server_version', *SETTINGS))}}}')"
SIZES = """
    SELECT sum(greatest(c.reltuples, s.n_live_tup, 0)) FILTER (WHERE t.k = 1)::int8 AS rows,
           sum(pg_total_relation_size(c.oid))::int8 AS bytes
    FROM unnest($1::text[]) WITH ORDINALITY AS t(name, k)
    CROSS JOIN LATERAL pg_partition_tree(to_regclass(t.name)) AS p
    JOIN pg_class c ON c.oid = p.relid
    LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
    WHERE p.isleaf
"""


class PostgresqlStore:
    """Store in PostgreSQL 14 or newer; see `backends.base.Store` for what its methods promise.

    Args:
        server: the embedded server to start and stop with the store, or to find running where the store is for
            reading; None when `database.dsn` names one.
        reading: makes a store that is only asked.
    """

    def __init__(
        self,
        database: DatabaseConfig,
        *,
        logger: str,
        groups: Mapping[str, InstrumentGroup],
        layouts: Mapping[str, Layout],
        password: str | None = None,
        server: EmbeddedPostgresql | None = None,
        reading: Reading | None = None,
    ) -> None:
        self._database = database
        self._logger = logger
        self._password = password
        self._server = server
        self._target = target_of(database.dsn) if database.dsn else "embedded PostgreSQL"
        schema = database.schema_name
        self._tables = {name: group_tables(schema, group, layouts[name]) for name, group in groups.items()}
        self._writers = {name: self._writer(tables) for name, tables in self._tables.items()}
        self._reading = reading
        self._give_up_s = reading.give_up_s if reading else database.command_timeout_s
        self._turns = asyncio.Semaphore(reading.connections if reading else READERS)
        self._idle: list[Connection] = []

    def _writer(self, tables: GroupTables) -> GroupWriter:
        return GroupWriter(
            tables=tables,
            schema=self._database.schema_name,
            logger=self._logger,
            target=self._target,
            connect=self._connect,
            timeout_s=self._database.command_timeout_s,
            stretch=self._database.partition,
            ahead=self._database.partitions_ahead,
        )

    async def open(self) -> None:
        """Create the schema or check it, and take the lock of every group."""
        schema = self._database.schema_name
        try:
            with login_refused():
                async with self._reader() as connection:
                    await create_or_check(connection, schema, self._logger, self._tables.values(), self._target)
                for writer in self._writers.values():
                    await writer.open()
        except GroupLocked as error:
            await self.close()
            raise SchemaMismatch(str(error)) from None
        except StoreError:
            await self.close()
            raise

    async def check(self) -> list[str]:
        """Look at the server, the rights and the schema without changing anything; start no embedded server."""
        schema, tables = self._database.schema_name, tuple(self._tables.values())
        dsn = self._database.dsn if self._server is None else self._server.found()
        if dsn is None:
            everything = Missing(schema=True, shared=True, groups=tables).words(schema)
            return ["an embedded PostgreSQL", *everything] if self._server and not self._server.is_made else []
        with translated(self._target), login_refused():
            async with asyncio.timeout(self._database.command_timeout_s):
                connection = await self._connected(dsn)
                try:
                    async with connection.transaction(readonly=True):
                        missing = await missing_from(connection, schema, self._logger, tables, self._target)
                finally:
                    connection.terminate()
        return missing.words(schema)

    async def commit(self, batch: Batch) -> None:
        """Commit a batch in one transaction: position, readings, ledger."""
        await self._writers[batch.group.name].commit(batch)

    async def rehearse(self, batch: Batch) -> None:
        """Do all of a commit but its end."""
        await self._writers[batch.group.name].rehearse(batch)

    async def position(self, group: str, stream: Stream = Stream.JOURNAL) -> JournalPosition | None:
        """Up to where the database holds the group."""
        return await self._writers[group].position(stream)

    async def ask(self, query: Query) -> Array:
        """Answer a question; readings come as binary COPY and never become Python objects one by one."""
        within_s = query.within_s if isinstance(query, Totals) else None
        async with self._reader(within_s) as connection:
            return await answer(connection, self._tables[query.group.name], query)

    async def facts(self) -> StoreFacts:
        """Ask the server what it is and what it really does about durability."""
        rows: dict[str, int] = {}
        size: dict[str, int] = {}
        async with self._reader() as connection:
            settings = {row["name"]: row["setting"] for row in await connection.fetch(VALUES)}
            for name, tables in self._tables.items():
                names = [quoted(self._database.schema_name, t.name) for t in (tables.data, tables.ledger)]
                found = await connection.fetchrow(SIZES, names)
                rows[name], size[name] = (found["rows"] or 0, found["bytes"] or 0) if found else (0, 0)
        return StoreFacts(
            backend="postgresql",
            version=settings.pop("server_version").split()[0],
            durability=held(settings),
            settings=settings,
            target=self._target,
            embedded=self._server is not None,
            rows=rows,
            size_bytes=size,
        )

    async def view(self) -> ServerView:
        """What the server counts of its own work, and what its sessions wait for now."""
        async with self._reader() as connection:
            return await work.view(connection)

    async def partitions(self) -> Mapping[str, tuple[Partition, ...]]:
        """The partitions of every group, in order of time."""
        async with self._reader() as connection:
            return await work.partitions(connection, self._tables.values())

    async def close(self) -> None:
        """Give the connections back, and stop an embedded server when this was its last user."""
        for writer in self._writers.values():
            await writer.close()
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.terminate()
        if self._server is not None and self._reading is None:
            await self._server.stop()

    @asynccontextmanager
    async def _reader(self, within_s: float | None = None) -> AsyncIterator[Connection]:
        async with self._turns:
            connection: Connection | None = None
            try:
                with translated(self._target), self._given_up():
                    async with asyncio.timeout(within_s or self._give_up_s):
                        while self._idle and (connection is None or connection.is_closed()):
                            connection = self._idle.pop()
                        if connection is None or connection.is_closed():
                            connection = await self._connect()
                        yield connection
                self._idle.append(connection)
            except BaseException as error:
                if connection is not None:
                    connection.terminate()
                if isinstance(error, NotBinaryCopy):
                    problem = f"the tables in {self._target} are not as this store made them: {error}"
                    raise StoreError(problem) from error
                raise

    def _given_up(self) -> AbstractContextManager[None]:
        return taken_too_long(self._target, self._give_up_s) if self._reading else nullcontext()

    def _session_settings(self) -> dict[str, str]:
        name = f"triggerlog {self._logger}"
        if self._reading is None:
            return {"application_name": name}
        return {
            "application_name": f"{name} reader",
            "default_transaction_read_only": "on",
            "statement_timeout": str(math.ceil(1000 * self._reading.give_up_s)),
            # One question must not take all the processors there are from the writing: decision 0029.
            "max_parallel_workers_per_gather": "0",
        }

    async def _connect(self) -> Connection:
        if self._server is None:
            return await self._connected(self._database.dsn)
        if self._reading is None:
            return await self._connected(await self._server.start())
        dsn = self._server.found()
        if dsn is None:
            raise StoreUnavailable("the embedded PostgreSQL does not run; it does while the daemon does")
        return await self._connected(dsn)

    async def _connected(self, dsn: str | None) -> Connection:
        # A batch is never at fault for what goes wrong before there is a connection.
        with translated(self._target, otherwise=StoreUnavailable):
            connection = await asyncpg.connect(
                dsn,
                password=self._password,
                timeout=self._database.command_timeout_s,
                server_settings=self._session_settings(),
            )
            if self._reading is not None:
                # Some systems cannot tell a server that its client has died; it then goes on until it gives up.
                with suppress(asyncpg.InvalidParameterValueError):
                    await connection.execute(CHECK_CLIENT)
            return connection

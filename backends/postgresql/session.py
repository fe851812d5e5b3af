"""Stores in PostgreSQL whose calls are transactions: their connections, and making or checking their tables."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from backends.postgresql.protocol.connection import Connection, target_of
from backends.postgresql.protocol.sql import DIALECT, create_schema, quoted
from backends.postgresql.schema import LOCK_TIMEOUT, SEEN, check_rights, check_version, lock_schema, see_may_create
from backends.postgresql.server.connecting import connect, milliseconds, see_no_pooler
from backends.postgresql.server.driver import DRIVER
from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.postgresql.server.errors import translated
from backends.sql.connection import Driver
from backends.sql.session import READ, Rows, SqlSession, SqlSessionStore, check_columns
from schemas.config import DatabaseConfig

BEGIN = {
    READ: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "write": "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
}
FEW = 64
"""So many rows are inserted by a statement that is prepared; COPY is faster for more."""


class PostgresqlSession(SqlSession):
    """A connection. timeout_s: after it a call is given up, and the connection with it."""

    begins: ClassVar[Mapping[str, str]] = BEGIN

    def __init__(self, connection: Connection, schema: str, timeout_s: float) -> None:
        self._schema = schema
        self._timeout_s = timeout_s
        self.connection = connection

    def quoted(self, table: str) -> str:
        """Name of a table of the schema, quoted."""
        return quoted(self._schema, table)

    def terminate(self) -> None:
        """End the connection now."""
        self.connection.terminate()

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[Connection]:
        """The connection, for one call."""
        async with asyncio.timeout(self._timeout_s):
            yield self.connection

    async def fetch(self, text: str, *values: Any) -> Rows:
        """The rows that a query finds."""
        async with self.in_time() as connection:
            return cast("Rows", await connection.fetch(text, *values))

    async def run(self, text: str, *values: Any) -> None:
        """Run a statement that gives no rows."""
        async with self.in_time() as connection:
            await connection.execute(text, *values)

    async def insert(self, table: str, **values: Any) -> int | None:
        """Insert a row; None where its name is taken."""
        places = ", ".join(f"${number}" for number in range(1, len(values) + 1))
        text = f"INSERT INTO {self.quoted(table)} ({', '.join(values)}) VALUES ({places})"
        found = await self.fetch(f"{text} ON CONFLICT DO NOTHING RETURNING id", *values.values())
        return int(found[0][0]) if found else None

    async def insert_rows(self, table: str, columns: Sequence[str], rows: Rows) -> None:
        """Insert rows."""
        async with self.in_time() as connection:
            if len(rows) <= FEW:
                places = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
                text = f"INSERT INTO {self.quoted(table)} ({', '.join(columns)}) VALUES ({places})"
                await connection.executemany(text, rows)
            else:
                await connection.copy_records_to_table(table, records=rows, columns=columns, schema_name=self._schema)


S = TypeVar("S", bound=PostgresqlSession)


def session_driver(_: type[S]) -> Driver[S]:
    """What a store needs of the driver, for its kind of session."""
    connection_of: Callable[[S], Connection] = lambda session: session.connection  # noqa: E731
    return DRIVER.over(connection_of)


COLUMNS = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = $1"
SETTINGS = {
    # What is asked is always for an index: statistics of tables that have just been filled say otherwise.
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
}

TO_CHANGE = ("SELECT", "INSERT", "UPDATE", "DELETE")


class PostgresqlSessionStore(SqlSessionStore[S]):
    """A store in a schema of its own; PostgreSQL 14 or newer.

    what: is in it, such as `conditions`, for messages and for the name of the connections.
    """

    what: ClassVar[str]

    def __init__(
        self,
        database: DatabaseConfig,
        session: type[S],
        *,
        schema: str,
        state_dir: Path,
        password: str | None,
        connections: int,
    ) -> None:
        super().__init__(
            session_driver(session),
            target=target_of(database.dsn) if database.dsn else "embedded PostgreSQL",
            timeout_s=database.command_timeout_s,
            connections=connections,
        )
        self._database = database
        self._schema = schema
        self._password = password
        self._server = EmbeddedPostgresql(state_dir) if database.dsn is None else None
        self._is_direct = False

    @abstractmethod
    def _session(self, connection: Connection) -> S:
        """Make the session of a connection."""

    @abstractmethod
    def _all_tables(self) -> Sequence[sa.Table]:
        """The tables that `create` makes, in the order in which they can be created."""

    def _beside_tables(self) -> Sequence[str]:
        """Statements that create what is in the schema beside the tables."""
        return ()

    async def create(self) -> None:
        """Create the schema with its tables in one transaction, or check what is there."""
        await self._try(commits=True)

    async def check(self) -> None:
        """Do what `create` would, and take it back."""
        await self._try(commits=False)

    async def _try(self, *, commits: bool) -> None:
        with self._driver.login_refused():
            async with self._connected() as session, session.in_time() as connection:
                check_version(connection.get_server_version(), self._target)
                transaction = connection.transaction()
                await transaction.start()
                await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; {lock_schema(self._schema)}")
                await self._create_or_check(connection)
                await (transaction.commit() if commits else transaction.rollback())

    async def _create_or_check(self, connection: Connection) -> None:
        seen = await connection.fetchrow(SEEN, quoted(self._schema))
        assert seen is not None
        found = map(tuple, await connection.fetch(COLUMNS, self._schema))
        if check_columns(self._schema, self.what, self._all_tables(), found):
            rights = [(quoted(self._schema, table.name), TO_CHANGE) for table in self._all_tables()]
            await check_rights(connection, rights, f"{self._target}: user {seen['name']!r}")
        else:
            see_may_create(seen, self._schema, self.what, self._target)
            await connection.execute(";".join(self._statements(with_schema=not seen["is_there"])))

    async def drop(self) -> None:
        """Remove the schema with everything in it."""
        async with self._connected() as session:
            await session.run(f"DROP SCHEMA IF EXISTS {quoted(self._schema)} CASCADE")

    def _statements(self, *, with_schema: bool) -> list[str]:
        tables = [text for table in self._all_tables() for text in create_table(table)]
        # Where it is there, the right to create one is not needed, and IF NOT EXISTS asks for it all the same.
        return [*([create_schema(self._schema)] if with_schema else []), *tables, *self._beside_tables()]

    async def _connect(self) -> S:
        with translated(self._target):
            if self._database.dsn is not None and not self._is_direct:
                await see_no_pooler(
                    self._database.dsn, password=self._password, timeout_s=self._timeout_s, target=self._target
                )
                self._is_direct = True
            connection = await connect(
                self._dsn(),
                password=self._password,
                timeout_s=self._timeout_s,
                program=f"triggerlog {self.what}",
                settings=SETTINGS | {"lock_timeout": milliseconds(self._timeout_s)},
            )
        return self._session(connection)

    def _dsn(self) -> str | None:
        return self._database.dsn if self._server is None else self._server.running()


def create_table(table: sa.Table) -> list[str]:
    """Statements that create a table with its indexes."""
    indexes = sorted(table.indexes, key=lambda index: str(index.name))
    return [
        str(CreateTable(table).compile(dialect=DIALECT)),
        *(str(CreateIndex(index).compile(dialect=DIALECT)) for index in indexes),
    ]

"""Stores in PostgreSQL whose calls are transactions: their connections, and making or checking their tables."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

import asyncpg
import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from backends.base import StoreError
from backends.postgresql.protocol.connection import Connection, target_of
from backends.postgresql.protocol.sql import DIALECT, create_schema, quoted
from backends.postgresql.schema.create import LOCK_TIMEOUT, SEEN, check_version, lock_schema
from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.postgresql.server.errors import translated
from backends.postgresql.session import PostgresqlSession, session_driver
from backends.postgresql.visits.connection import SYNCHRONOUS
from backends.sql.checking import check_columns
from backends.sql.session_store import SqlSessionStore
from schemas.config import DatabaseConfig

COLUMNS = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = $1"
SETTINGS = {
    # What is asked is always for an index: statistics of tables that have just been filled say otherwise.
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    # What a role has by default would end a statement as if the server could not do it now.
    "statement_timeout": "0",
}

S = TypeVar("S", bound=PostgresqlSession)


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
        async with self._connected() as session, session.in_time() as connection:
            check_version(connection.get_server_version(), self._target)
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; {lock_schema(self._schema)}")
                found = map(tuple, await connection.fetch(COLUMNS, self._schema))
                if check_columns(self._schema, self.what, self._all_tables(), found):
                    return
                await self._see_may_create(connection)
                await connection.execute(";".join(self._statements()))

    async def drop(self) -> None:
        """Remove the schema with everything in it."""
        async with self._connected() as session:
            await session.run(f"DROP SCHEMA IF EXISTS {quoted(self._schema)} CASCADE")

    def _statements(self) -> list[str]:
        tables = [text for table in self._all_tables() for text in create_table(table)]
        return [create_schema(self._schema, if_missing=True), *tables, *self._beside_tables()]

    async def _see_may_create(self, connection: Connection) -> None:
        seen = await connection.fetchrow(SEEN, quoted(self._schema))
        assert seen is not None
        if not seen["is_there"] and not seen["may_create_schema"]:
            raise StoreError(
                f"{self._target}: user {seen['name']!r} may not create schema {self._schema!r} in database"
                f" {seen['database']!r}; let an administrator run CREATE SCHEMA {quoted(self._schema)}"
                f" AUTHORIZATION {quoted(seen['name'])}"
            )

    async def _connect(self) -> S:
        settings = SETTINGS | {
            "application_name": f"triggerlog {self.what}",
            "lock_timeout": str(math.ceil(1000 * self._timeout_s)),
        }
        with translated(self._target):
            connection = await asyncpg.connect(
                self._dsn(), password=self._password, timeout=self._timeout_s, server_settings=settings
            )
            await connection.execute(SYNCHRONOUS)
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

"""The store of conditions in PostgreSQL."""

import math
from pathlib import Path

import asyncpg

from backends.base import StoreUnavailable
from backends.postgresql.conditions.schema import create_or_check
from backends.postgresql.conditions.session import SESSION_DRIVER, PostgresqlConditionsSession
from backends.postgresql.protocol.connection import target_of
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.postgresql.server.errors import translated
from backends.postgresql.visits.connection import SYNCHRONOUS
from backends.sql.conditions.store import SqlConditionsStore
from backends.sql.conditions.tables import conditions_tables
from schemas.config import DatabaseConfig

SETTINGS = {
    "application_name": "triggerlog conditions",
    # What is asked is always for an index: statistics of tables that have just been filled say otherwise.
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    # What a role has by default would end a statement as if the server could not do it now.
    "statement_timeout": "0",
}


class PostgresqlConditionsStore(SqlConditionsStore[PostgresqlConditionsSession]):
    """Conditions in PostgreSQL 14 or newer; its methods promise what `ConditionsStore` says."""

    def __init__(
        self, database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None, connections: int
    ) -> None:
        target = target_of(database.dsn) if database.dsn else "embedded PostgreSQL"
        super().__init__(SESSION_DRIVER, target=target, timeout_s=database.command_timeout_s, connections=connections)
        self._database = database
        self._schema = schema
        self._password = password
        self._server = EmbeddedPostgresql(state_dir) if database.dsn is None else None
        self._tables = conditions_tables(schema)

    async def create(self) -> None:
        """Create the schema and the tables, or check those that are there."""
        async with self._connected() as session, session.in_time() as connection:
            await create_or_check(connection, self._schema, self._tables, self._target)

    async def drop(self) -> None:
        """Remove the schema with everything in it."""
        async with self._connected() as session:
            await session.run(f"DROP SCHEMA IF EXISTS {quoted(self._schema)} CASCADE")

    async def _connect(self) -> PostgresqlConditionsSession:
        settings = SETTINGS | {"lock_timeout": str(math.ceil(1000 * self._timeout_s))}
        with translated(self._target, otherwise=StoreUnavailable):
            connection = await asyncpg.connect(
                self._dsn(), password=self._password, timeout=self._timeout_s, server_settings=settings
            )
            await connection.execute(SYNCHRONOUS)
        return PostgresqlConditionsSession(connection, self._schema, self._tables, self._timeout_s)

    def _dsn(self) -> str | None:
        return self._database.dsn if self._server is None else self._server.running()

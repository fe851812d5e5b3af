"""The store of conditions in PostgreSQL."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import sqlalchemy as sa

from backends.postgresql.conditions.session import IDS, PostgresqlConditionsSession
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.session_store import PostgresqlSessionStore
from backends.sql.conditions.session import conditions_tables
from backends.sql.conditions.store import SqlConditionsStore
from schemas.config import DatabaseConfig


class PostgresqlConditionsStore(
    PostgresqlSessionStore[PostgresqlConditionsSession], SqlConditionsStore[PostgresqlConditionsSession]
):
    """Conditions in PostgreSQL; its methods promise what `ConditionsStore` says."""

    what: ClassVar[str] = "conditions"

    def __init__(
        self, database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None, connections: int
    ) -> None:
        super().__init__(
            database,
            PostgresqlConditionsSession,
            schema=schema,
            state_dir=state_dir,
            password=password,
            connections=connections,
        )
        self._tables = conditions_tables(schema)

    def _session(self, connection: Connection) -> PostgresqlConditionsSession:
        return PostgresqlConditionsSession(connection, self._schema, self._timeout_s, self._tables)

    def _all_tables(self) -> Sequence[sa.Table]:
        return self._tables.all()

    def _beside_tables(self) -> Sequence[str]:
        detaching = quoted(self._schema, self._tables.detaching.name)
        return [f"CREATE SEQUENCE {quoted(self._schema, IDS)}", f"INSERT INTO {detaching} VALUES (1)"]

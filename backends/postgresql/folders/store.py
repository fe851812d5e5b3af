"""The store of folders in PostgreSQL."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import sqlalchemy as sa

from backends.postgresql.folders.session import PostgresqlFoldersSession
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.schema.create import lock_schema
from backends.postgresql.session_store import PostgresqlSessionStore
from backends.sql.folders.inserting import KnownChannels
from backends.sql.folders.store import SqlFoldersStore
from backends.sql.folders.tables import folders_tables
from schemas.config import DatabaseConfig


class PostgresqlFoldersStore(
    PostgresqlSessionStore[PostgresqlFoldersSession], SqlFoldersStore[PostgresqlFoldersSession]
):
    """Folders in PostgreSQL; its methods promise what `FoldersStore` says."""

    what: ClassVar[str] = "folders"

    def __init__(
        self, database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None, connections: int
    ) -> None:
        super().__init__(
            database,
            PostgresqlFoldersSession,
            schema=schema,
            state_dir=state_dir,
            password=password,
            connections=connections,
        )
        self._known = KnownChannels()

    def _session(self, connection: Connection) -> PostgresqlFoldersSession:
        return PostgresqlFoldersSession(connection, self._schema, self._timeout_s, folders_tables(self._schema))

    def _all_tables(self) -> Sequence[sa.Table]:
        return folders_tables(self._schema).all()

    @asynccontextmanager
    async def _alone_with_tree(self) -> AsyncIterator[PostgresqlFoldersSession]:
        async with self._transaction() as session:
            await session.fetch(lock_schema(self._schema))
            yield session

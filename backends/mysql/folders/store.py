"""The store of folders in MariaDB and MySQL."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar

import sqlalchemy as sa

from backends.mysql.folders.session import MysqlFoldersSession
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import literal
from backends.mysql.session_store import MysqlSessionStore
from backends.sql.folders.inserting import KnownChannels
from backends.sql.folders.store import SqlFoldersStore
from backends.sql.folders.tables import folders_tables
from backends.sql.session import in_transaction
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.config import DatabaseConfig
from schemas.folders.folders import FolderLayout, NewFolder

LAYOUTS = (FolderLayout.WINDOW, FolderLayout.ARRAYS, FolderLayout.CHANNEL_MAX)
"""MariaDB has no LATERAL, and no BRIN index."""


class MysqlFoldersStore(MysqlSessionStore[MysqlFoldersSession], SqlFoldersStore[MysqlFoldersSession]):
    """Folders in MariaDB and MySQL; its methods promise what `FoldersStore` says."""

    what: ClassVar[str] = "folders"

    def __init__(self, database: DatabaseConfig, *, schema: str, password: str | None, connections: int) -> None:
        super().__init__(database, MysqlFoldersSession, schema=schema, password=password, connections=connections)
        self._known = KnownChannels()

    def _session(self, connection: Connection) -> MysqlFoldersSession:
        return MysqlFoldersSession(connection, self._schema, self._timeout_s, folders_tables(self._schema))

    def _all_tables(self) -> Sequence[sa.Table]:
        return folders_tables(self._schema).all()

    def _check_layout(self, new: NewFolder) -> None:
        if new.layout not in LAYOUTS:
            raise ConditionsRefused(
                RefusalKind.INVALID, "layout", f"MariaDB has no way for {new.layout}", f"take {' or '.join(LAYOUTS)}"
            )

    async def _remove_left_over(self, session: MysqlFoldersSession) -> None:
        """Tables of folders that were not added yet, or are removed: the server commits each change of a table."""
        tokens = {token for (token,) in await session.fetch(f"SELECT token FROM {session.nodes}")}
        there = f"information_schema.TABLES WHERE TABLE_SCHEMA = {literal(self._schema)}"
        for (name,) in await session.fetch(f"SELECT TABLE_NAME FROM {there} AND TABLE_NAME LIKE 'f\\_%'"):
            if name.removeprefix("f_").removesuffix("_open") not in tokens:
                await session.run(f"DROP TABLE {session.quoted(name)}")

    @asynccontextmanager
    async def _alone_with_tree(self) -> AsyncIterator[MysqlFoldersSession]:
        async with self._connected() as session, self._alone(session), in_transaction(session):
            yield session

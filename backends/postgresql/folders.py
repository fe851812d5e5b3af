"""The store of folders in PostgreSQL: blocks go in and out by binary COPY, without a Python object a row."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import asyncpg
import numpy as np
import sqlalchemy as sa

from backends.postgresql.protocol.connection import MESSAGE_BYTES, Connection, in_messages
from backends.postgresql.protocol.copy import SIGNATURE, TRAILER, RowFormat
from backends.postgresql.protocol.output import copied_text
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.schema import lock_schema
from backends.postgresql.session import PostgresqlSession, PostgresqlSessionStore, create_table
from backends.sql.folders.inserting import KnownChannels
from backends.sql.folders.session import (
    FoldersSession,
    FoldersTables,
    FolderTables,
    StoredFolder,
    brin_name,
    folders_tables,
    is_gone,
)
from backends.sql.folders.store import SqlFoldersStore
from backends.sql.session import Rows
from schemas.config import DatabaseConfig
from schemas.folders.folders import FolderLayout
from schemas.readings import Array

Fields = Sequence[tuple[str, str]]


class PostgresqlFoldersSession(PostgresqlSession, FoldersSession):
    """A connection; see `PostgresqlSession`."""

    def __init__(self, connection: Connection, schema: str, timeout_s: float, tables: FoldersTables) -> None:
        PostgresqlSession.__init__(self, connection, schema, timeout_s)
        FoldersSession.__init__(self, tables)

    def column(self, name: str) -> str:
        """Name of a column, quoted."""
        return quoted(name)

    def by_index(self, index: str) -> str:
        """Nothing: the planner finds it."""
        return ""

    async def create_folder(self, tables: FolderTables) -> None:
        """Create the tables of a folder."""
        await self.run(";".join(text for table in tables.both() for text in create_table(table)))

    async def drop_folder(self, tables: FolderTables) -> None:
        """Drop the tables of a folder."""
        await self.run(f"DROP TABLE IF EXISTS {', '.join(self.quoted(table.name) for table in tables.both())}")

    async def insert_block(self, table: str, fields: Fields, block: Array) -> None:
        """Insert rows by COPY."""
        payload = encoded(fields, block)
        source: Any = payload if payload.nbytes <= MESSAGE_BYTES else in_messages(payload)
        columns = [name for name, _ in fields]
        async with self.in_time() as connection:
            await connection.copy_to_table(
                table, schema_name=self._schema, columns=columns, source=source, format="binary"
            )

    async def after_insert(self, stored: StoredFolder) -> None:
        """Summarize new blocks in a BRIN index: until that is done, each question reads them."""
        if stored.folder.layout is FolderLayout.BRIN:
            await self.fetch(f"SELECT brin_summarize_new_values('{self.quoted(brin_name(stored.token))}')")

    async def select_block(self, text: str, fields: Fields) -> Array:
        """The rows that a query finds."""
        with _folder_is_there():
            async with self.in_time() as connection:
                rows = _format(fields).parse(await copied_text(connection, text))
        block = np.empty(len(rows), np.dtype(list(fields)))
        for name, _ in fields:
            block[name] = rows[name]
        return block

    async def select_chunks(self, text: str) -> Rows:
        """Chunks that a query finds."""
        with _folder_is_there():
            return await self.fetch(text)

    def selected(self, name: str, form: str, of: str = "") -> str:
        """A column; a text as bytes, with NULs up to its greatest width."""
        column = of + quoted(name)
        if not form.startswith("S"):
            return column
        width = int(form[1:])
        padding = f"decode(repeat('00', {width} - octet_length({column})), 'hex')"
        as_bytes = f"convert_to({column}, 'UTF8')"
        return f"CASE octet_length({column}) WHEN {width} THEN {as_bytes} ELSE {as_bytes} || {padding} END"


@contextmanager
def _folder_is_there() -> Iterator[None]:
    """See that a folder's tables are there.

    Raises:
        ConditionsRefused: it was removed.
    """
    try:
        yield
    except asyncpg.UndefinedTableError:
        raise is_gone() from None


def encoded(fields: Fields, block: Array) -> Array:
    """Rows as a COPY file, uint8; of texts only what is before the NULs at their end."""
    form = _format(fields)
    whole, rows = form.blank(len(block))
    for name, _ in fields:
        rows[name] = block[name]
    keep = np.ones((len(rows), form.dtype.itemsize), bool)
    assert form.dtype.fields is not None
    for name, dtype in fields:
        if dtype.startswith("S"):
            lengths = np.char.str_len(block[name])
            rows[f"{name}:length"] = lengths
            start, width = form.dtype.fields[name][1], int(dtype[1:])
            keep[:, start : start + width] = np.arange(width) < lengths[:, None]
    if keep.all():
        return whole
    head, tail = np.frombuffer(SIGNATURE, np.uint8), np.frombuffer(TRAILER, np.uint8)
    return np.concatenate([head, whole[len(head) : -len(tail)].reshape(keep.shape)[keep], tail])


def _format(fields: Fields) -> RowFormat:
    return RowFormat([(name, dtype, 0) for name, dtype in fields])


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


def open_folders_store(
    database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None = None, connections: int = 4
) -> PostgresqlFoldersStore:
    """Make the store; see `backends.open_folders_store`."""
    return PostgresqlFoldersStore(
        database, schema=schema, state_dir=state_dir, password=password, connections=connections
    )

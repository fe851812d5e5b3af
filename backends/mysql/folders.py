"""The store of folders in MariaDB and MySQL: blocks go and come in the binary protocol, no Python object a row."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np
import sqlalchemy as sa
from pymysql.err import MySQLError

from backends.mysql.protocol.bulk import Insert, Inserter
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import Field, ParameterFormat, ResultFormat
from backends.mysql.protocol.sql import insert_into, literal, quoted
from backends.mysql.server.errors import number_of
from backends.mysql.server.facts import product_of
from backends.mysql.session import BEGIN, MysqlSession, MysqlSessionStore, create_table
from backends.sql.folders.inserting import KnownChannels
from backends.sql.folders.session import FoldersSession, FoldersTables, FolderTables, folders_tables, is_gone
from backends.sql.folders.store import SqlFoldersStore
from backends.sql.session import WRITE, Rows, in_transaction
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.config import DatabaseConfig
from schemas.folders.folders import FolderLayout, NewFolder
from schemas.readings import Array

Fields = Sequence[tuple[str, str]]
GONE = (1146, 1412)
"""There is no such table; and the table has changed since the transaction began."""


class MysqlFoldersSession(MysqlSession, FoldersSession):
    """A connection; see `MysqlSession`."""

    def __init__(self, connection: Connection, schema: str, timeout_s: float, tables: FoldersTables) -> None:
        MysqlSession.__init__(self, connection, schema, timeout_s)
        FoldersSession.__init__(self, tables)
        self._inserter = Inserter(connection)

    def column(self, name: str) -> str:
        """Name of a column, quoted."""
        return quoted(name)

    def by_index(self, index: str) -> str:
        """The index that is taken: statistics of a table that has just been filled say nothing yet."""
        return f" FORCE INDEX ({index})"

    async def create_folder(self, tables: FolderTables) -> None:
        """Create the tables of a folder. Each statement ends the transaction, so that another begins."""
        for table in tables.both():
            await self.run(create_table(table, product_of(self.connection.version).backend))
        await self.run(BEGIN[WRITE])

    async def drop_folder(self, tables: FolderTables) -> None:
        """Drop the tables of a folder; the server commits the transaction before it does."""
        await self.run(f"DROP TABLE IF EXISTS {', '.join(self.quoted(table.name) for table in tables.both())}")

    async def insert_block(self, table: str, fields: Fields, block: Array) -> None:
        """Insert rows, many with a command."""
        form = ParameterFormat([_field(*each) for each in fields], indicated=self.connection.bulk)
        rows = form.blank(len(block))
        for name, dtype in fields:
            rows[name] = _bytes(block[name]) if dtype.startswith("S") else block[name]
        into, _ = insert_into(self.quoted(table), [quoted(name) for name, _ in fields])
        values = ",".join(_parameter(dtype) for _, dtype in fields)
        insert = Insert(into=into, values=f"({values})", form=form, rows=rows)
        async with asyncio.timeout(self._timeout_s):
            await self._inserter.prepare(insert)
            for _ in range(await self._inserter.send(insert, ahead=form.indicated)):
                await self.connection.answer()

    async def select_block(self, text: str, fields: Fields) -> Array:
        """The rows that a query finds."""
        with _folder_is_there():
            async with asyncio.timeout(self._timeout_s):
                packets = await self.connection.select(text)
        columns, _ = ResultFormat([_field(*each) for each in fields]).parse(packets)
        block = np.empty(len(packets), np.dtype(list(fields)))
        for name, dtype in fields:
            column = columns[name]
            block[name] = np.ascontiguousarray(column).view(dtype)[:, 0] if dtype.startswith("S") else column
        return block

    async def select_chunks(self, text: str) -> Rows:
        """Chunks that a query finds."""
        with _folder_is_there():
            return await self.fetch(text)

    def selected(self, name: str, form: str, of: str = "") -> str:
        """A column; a text as bytes, with NULs up to its greatest width."""
        column = of + quoted(name)
        return f"RPAD(CAST({column} AS BINARY), {form[1:]}, x'00')" if form.startswith("S") else column


@contextmanager
def _folder_is_there() -> Iterator[None]:
    """See that a folder's tables are there.

    Raises:
        ConditionsRefused: it was removed.
    """
    try:
        yield
    except MySQLError as error:
        if number_of(error) not in GONE:
            raise
        raise is_gone() from None


def _field(name: str, dtype: str) -> Field:
    return Field(name, "u1", int(dtype[1:])) if dtype.startswith("S") else Field(name, dtype)


def _parameter(dtype: str) -> str:
    """A text comes with NULs up to its greatest width, and is stored without them."""
    return "CONVERT(TRIM(TRAILING x'00' FROM ?) USING utf8mb4)" if dtype.startswith("S") else "?"


def _bytes(texts: Array) -> Array:
    """Texts as bytes, uint8, shape (n, width)."""
    return np.ascontiguousarray(texts).view(np.uint8).reshape(len(texts), -1)


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


def open_folders_store(
    database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None = None, connections: int = 4
) -> MysqlFoldersStore:
    """Make the store; see `backends.open_folders_store`. Nothing lies under `state_dir`."""
    return MysqlFoldersStore(database, schema=schema, password=password, connections=connections)

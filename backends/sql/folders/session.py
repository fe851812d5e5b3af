"""A connection to a store of folders, as the shared code needs it, and the chunks that it reads and writes.

In the layout `arrays` a row is a chunk, which has intervals of many channels as packed bytes. An insertion writes
chunks of its own, which nobody changes any more. A chunk has at most CHUNK_BYTES of intervals of one class of lengths
that begin one behind the other. It is found as an interval is: it begins where the first one does, ends where the last
one does, and has the class of that length. What is asked for is then chosen among what is in it.

The tables are declared with SQLAlchemy Core and compiled for each SQL dialect: `nodes` are folder sets and folders;
`channels`, `lengths` (the longest interval of each class of lengths), `positions` (up to where each source has
inserted) and `tags` are of folders. A folder has two tables of its own, of the same columns: one for the intervals that
have an end, and a small one for the open ones.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from backends.columns.stored import STORED_DTYPES
from backends.sql.session import Rows, SqlSession
from backends.sql.tables import SQL_TYPES, STATE_BYTES
from schemas.conditions.intervals import NAME_MOST
from schemas.conditions.rules import ConditionsRefused, unknown
from schemas.folders.folders import KEY, Column, Folder, FolderLayout, NewFolder
from schemas.folders.timeline import length_classes
from schemas.readings import Array

SET = "set"
"""`kind` of a node that is a set; else it is a `FolderKind`."""
STORED_KEY: tuple[tuple[str, str], ...] = (("length_class", "<i2"), *KEY, ("version", "<i8"))
"""Columns of a folder's tables before those of its values, and their dtypes."""
POSITION = ("sequence", "journal", "triggers", "readings", "state")
"""Columns of `positions` that are those of a `JournalPosition`."""
CHUNK_BYTES_MOST = 2**24 - 1
"""What a chunk of the layout `arrays` may have in MariaDB; it has far less."""
BRIN_PAGES = 8
"""Pages a range: a folder of 1,000 channels of 1 kB has some 150 pages in the longest interval."""


@dataclass(frozen=True, kw_only=True)
class FoldersTables:
    """The tables that all folders of a schema share."""

    nodes: sa.Table
    channels: sa.Table
    lengths: sa.Table
    positions: sa.Table
    tags: sa.Table

    def all(self) -> tuple[sa.Table, ...]:
        """All of them."""
        return (self.nodes, self.channels, self.lengths, self.positions, self.tags)


@dataclass(frozen=True, kw_only=True)
class FolderTables:
    """The tables of one folder: intervals with an end, and open ones."""

    closed: sa.Table
    opened: sa.Table

    def both(self) -> tuple[sa.Table, sa.Table]:
        """Both."""
        return (self.closed, self.opened)


@lru_cache
def folders_tables(schema: str) -> FoldersTables:
    """Declare the tables that all folders share."""
    metadata = sa.MetaData(schema=schema)
    nodes = sa.Table(
        "nodes",
        metadata,
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("path", sa.String(NAME_MOST), nullable=False, unique=True),
        *(sa.Column(name, sa.String(32), nullable=False) for name in ("kind", "layout", "token")),
        sa.Column("columns", sa.Text, nullable=False),
        sa.Column("description", sa.String(NAME_MOST), nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("version", "created_ns")),
    )
    return FoldersTables(
        nodes=nodes,
        channels=sa.Table(
            "channels",
            metadata,
            _folder(),
            sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("name", sa.String(NAME_MOST), nullable=False),
            sa.UniqueConstraint("folder", "name"),
        ),
        lengths=sa.Table(
            "lengths",
            metadata,
            _folder(),
            sa.Column("length_class", sa.SmallInteger, primary_key=True, autoincrement=False),
            sa.Column("longest", sa.BigInteger, nullable=False),
        ),
        positions=sa.Table(
            "positions",
            metadata,
            _folder(),
            sa.Column("source", sa.String(NAME_MOST), primary_key=True),
            *(sa.Column(name, sa.BigInteger, nullable=False) for name in POSITION[:-1]),
            sa.Column(POSITION[-1], sa.LargeBinary(STATE_BYTES), nullable=False),
        ),
        tags=sa.Table(
            "tags",
            metadata,
            _folder(),
            sa.Column("name", sa.String(NAME_MOST), primary_key=True),
            *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("version", "created_ns")),
        ),
    )


def folder_tables(schema: str, token: str, columns: tuple[Column, ...], layout: FolderLayout) -> FolderTables:
    """Declare the tables of a folder; token: what their names are made of."""
    metadata = sa.MetaData(schema=schema)
    name = closed_name(token)
    by_channel = sa.Index(f"{name}_channel", "channel", "since")
    opened = sa.Table(
        f"{name}_open", metadata, *_stored(columns), sa.PrimaryKeyConstraint("channel", "since", "version")
    )
    if layout is FolderLayout.ARRAYS:
        return FolderTables(closed=_chunks(name, metadata), opened=opened)
    indexes: tuple[sa.schema.SchemaItem, ...]
    if layout is FolderLayout.BRIN:
        about = {"pages_per_range": BRIN_PAGES}
        # Without `since` in the other one: the planner would go through all of it for a span of time.
        by_time = sa.Index(brin_name(token), "since", postgresql_using="brin", postgresql_with=about)
        indexes = (sa.Index(f"{name}_channel", "channel"), by_time)
    elif layout.by_channel:
        indexes = (sa.PrimaryKeyConstraint("channel", "since", "version"),)
    elif layout.by_window:
        indexes = (sa.PrimaryKeyConstraint("length_class", "since", "channel", "version"), by_channel)
    else:
        indexes = (sa.PrimaryKeyConstraint("since", "channel", "version"), by_channel)
    return FolderTables(closed=sa.Table(name, metadata, *_stored(columns), *indexes), opened=opened)


def tables_of(schema: str, folder: Folder, token: str) -> FolderTables:
    """The tables of a folder that is there."""
    return folder_tables(schema, token, folder.columns, folder.layout)


def closed_name(token: str) -> str:
    """Name of the table of intervals with an end; that of the open ones has `_open` behind it."""
    return f"f_{token}"


def brin_name(token: str) -> str:
    """Name of the index by time in the layout `brin`."""
    return f"{closed_name(token)}_since"


def stored_fields(columns: tuple[Column, ...]) -> tuple[tuple[str, str], ...]:
    """Columns of a folder's tables, and their dtypes; a text has as many bytes as it may have."""
    return (*STORED_KEY, *value_fields(columns))


def value_fields(columns: tuple[Column, ...]) -> tuple[tuple[str, str], ...]:
    """The same of the values alone."""
    return tuple((each.name, each.form if each.is_text else STORED_DTYPES[each.dtype]) for each in columns)


def _folder() -> sa.Column[int]:
    return sa.Column("folder", sa.BigInteger, primary_key=True, autoincrement=False)


def _stored(columns: tuple[Column, ...]) -> list[sa.Column[Any]]:
    return [
        sa.Column(name, sa.Text() if form.startswith("S") else _number(form), nullable=False)
        for name, form in stored_fields(columns)
    ]


def _chunks(name: str, metadata: sa.MetaData) -> sa.Table:
    """Chunks of the layout `arrays`; number: of a chunk within its insertion, which is the version."""
    return sa.Table(
        name,
        metadata,
        sa.Column("length_class", sa.SmallInteger, nullable=False),
        *(sa.Column(each, sa.BigInteger, nullable=False) for each in ("since", "until", "version")),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("data", sa.LargeBinary(CHUNK_BYTES_MOST), nullable=False),
        sa.PrimaryKeyConstraint("length_class", "since", "version", "number"),
    )


def _number(form: str) -> sa.types.TypeEngine[Any]:
    # REAL is DOUBLE for MariaDB and MySQL.
    return sa.REAL().with_variant(mysql.FLOAT(), "mysql", "mariadb") if form == "<f4" else SQL_TYPES[form]()


@dataclass(frozen=True, kw_only=True)
class StoredFolder:
    """A folder where it is stored.

    id: its number in the tables that all share. token: what the names of its own tables are made of.
    lengths: the longest interval of each class of lengths.
    """

    id: int
    folder: Folder
    token: str
    lengths: dict[int, int]


class FoldersSession(SqlSession):
    """One connection, used by one caller at a time."""

    def __init__(self, tables: FoldersTables) -> None:
        names = (self.quoted(table.name) for table in tables.all())
        self.nodes, self.channels, self.lengths, self.positions, self.tags = names

    @abstractmethod
    def column(self, name: str) -> str:
        """Name of a column, quoted."""

    @abstractmethod
    def by_index(self, index: str) -> str:
        """What follows a table so that its primary key (`PRIMARY`) or another index is taken; may be empty."""

    @abstractmethod
    async def create_folder(self, tables: FolderTables) -> None:
        """Create the tables of a folder. Nothing was changed in the transaction before."""

    @abstractmethod
    async def drop_folder(self, tables: FolderTables) -> None:
        """Drop the tables of a folder, if they are there, and commit what was changed before if need be."""

    @abstractmethod
    async def insert_block(self, table: str, fields: Sequence[tuple[str, str]], block: Array) -> None:
        """Insert rows. fields: `stored_fields`; block: with a field for each of them."""

    @abstractmethod
    async def select_block(self, text: str, fields: Sequence[tuple[str, str]]) -> Array:
        """The rows that a query finds, packed; fields: names and dtypes of its columns, which `selected` wrote."""

    @abstractmethod
    async def select_chunks(self, text: str) -> Rows:
        """The rows that a query finds of a folder whose layout is `arrays`."""

    @abstractmethod
    def selected(self, name: str, form: str, of: str = "") -> str:
        """A column so that each of its values takes as many bytes as its dtype. of: the table's alias and a dot."""

    async def after_insert(self, stored: StoredFolder) -> None:
        """Do what a folder's layout needs at the end of an insertion."""

    def closed(self, stored: StoredFolder) -> str:
        """Table of a folder's intervals with an end."""
        return self.quoted(closed_name(stored.token))

    def opened(self, stored: StoredFolder) -> str:
        """Table of a folder's open intervals."""
        return self.quoted(f"{closed_name(stored.token)}_open")

    async def store(self, stored: StoredFolder, *, block: Array, classes: Array, is_open: bool) -> None:
        """Insert intervals of a version behind the folder's. classes: of their lengths, int16."""
        if not len(block):
            return
        fields = stored_fields(stored.folder.columns)
        rows = np.empty(len(block), np.dtype(list(fields)))
        rows["length_class"], rows["version"] = classes, stored.folder.version + 1
        for name in block.dtype.names or ():
            rows[name] = block[name]
        name = closed_name(stored.token)
        await self.insert_block(f"{name}_open" if is_open else name, fields, rows)

    async def store_chunks(self, stored: StoredFolder, block: Array) -> Array:
        """The same of intervals with an end, in the layout `arrays`; return from when until when each chunk is."""
        spans, data = cut(block)
        version, keys = (
            stored.folder.version + 1,
            zip(*(spans[name].tolist() for name in ("since", "until")), strict=True),
        )
        rows = [
            (class_, *key, version, number, each)
            for number, (class_, key, each) in enumerate(zip(length_classes(spans).tolist(), keys, data, strict=True))
        ]
        if rows:
            columns = ("length_class", "since", "until", "version", "number", "data")
            await self.insert_rows(closed_name(stored.token), columns, rows)
        return spans


def is_gone() -> ConditionsRefused:
    """A folder was removed between the questions for what it is and for what is in it."""
    return unknown("path", "the folder")


def tables_of_new(schema: str, new: NewFolder, token: str) -> FolderTables:
    """The tables of a folder that is to be added."""
    return folder_tables(schema, token, new.columns, new.layout)


CHUNK_BYTES = 100_000
"""About what is read in vain at each end of a span; of a folder of 1,000 channels of 1 kB, a snapshot has 1 MB."""


def cut(block: Array) -> tuple[Array, list[bytes]]:
    """Intervals as chunks: where each begins and ends (as `KEY`, the channel is 0), and what is in each."""
    block = block[np.lexsort((block["channel"], block["since"]))]
    classes, most = length_classes(block), max(1, CHUNK_BYTES // block.itemsize)
    alike = (block[classes == each] for each in np.unique(classes))
    parts = [some[first : first + most] for some in alike for first in range(0, len(some), most)]
    spans = np.array([(0, part["since"].min(), part["until"].max()) for part in parts], list(KEY))
    return spans, [part.tobytes() for part in parts]


def unpacked(chunks: Sequence[Sequence[Any]], dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Intervals of chunks, and their versions (int64). chunks: version and bytes of each; dtype: of the intervals."""
    block = np.frombuffer(b"".join(data for _, data in chunks), dtype)
    lengths = [len(data) // dtype.itemsize for _, data in chunks]
    versions = np.array([version for version, _ in chunks], np.int64)
    return block, np.repeat(versions, np.array(lengths, np.int64))

"""The tables of folders, declared with SQLAlchemy Core and compiled for each SQL dialect.

`nodes` are folder sets and folders; `channels`, `lengths` (the longest interval of each class of lengths), `positions`
(up to where each source has inserted) and `tags` are of folders. A folder has two tables of its own, of the same
columns: one for the intervals that have an end, and a small one for the open ones.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from backends.columns.stored import STORED_DTYPES
from backends.sql.tables import SQL_TYPES
from schemas.conditions.intervals import NAME_MOST
from schemas.folders.folders import KEY, Column, Folder, FolderLayout

SET = "set"
"""`kind` of a node that is a set; else it is a `FolderKind`."""
STORED_KEY: tuple[tuple[str, str], ...] = (("length_class", "<i2"), *KEY, ("version", "<i8"))
"""Columns of a folder's tables before those of its values, and their dtypes."""
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
            *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("sequence", "journal")),
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

"""The tables of conditions, declared once with SQLAlchemy Core and compiled for each SQL dialect.

`types`, `tags` and `lists` are what they say. A list has a row in `contents`, which lists of clones share until one of
them is changed; `breakpoints` are what a content holds: from a key on the payload of a row is valid, or nothing where
`id` is NULL, up to the next one. `loose_intervals` are in no list, and have ends. A list's name is not stored: it is
TYPE_ID. `detaching` has one row, which is there to be locked.

`ConditionsSession` is a connection to a store of conditions: what the shared code needs of it, in SQL that every
dialect here takes.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import sqlalchemy as sa

from backends.sql.session import Rows, SqlSession
from schemas.conditions.intervals import END, KEY_DTYPE, NAME_MOST, URL_MOST, Intervals, Key
from schemas.conditions.line import texts
from schemas.readings import Array

PAYLOAD = ("id", "url", "checksum", "size", "inserted_ns")
POINT = ("major", "minor", *PAYLOAD)
"""Columns of a breakpoint, without its content."""
REVISION = ("id", "status", "revision", "updated_ns")
TAG_REVISION = ", ".join(f"t.{column}" for column in REVISION)
"""Columns of a tag, t, that tell its revision; and the same to be selected."""
LOOSE = (*PAYLOAD, "start_major", "start_minor", "end_major", "end_minor")


@dataclass(frozen=True, kw_only=True)
class ConditionsTables:
    """The tables of a schema."""

    types: sa.Table
    tags: sa.Table
    contents: sa.Table
    lists: sa.Table
    breakpoints: sa.Table
    loose: sa.Table
    detaching: sa.Table

    def all(self) -> tuple[sa.Table, ...]:
        """All of them, in the order in which they can be created."""
        return (self.types, self.tags, self.contents, self.lists, self.breakpoints, self.loose, self.detaching)


def conditions_tables(schema: str) -> ConditionsTables:
    """Declare the tables of a schema."""
    metadata = sa.MetaData(schema=schema)

    def table(name: str, *items: sa.schema.SchemaItem) -> sa.Table:
        return sa.Table(name, metadata, *items)

    types = table("types", _id(), _text("name", unique=True), _number("created_ns"))
    tags = table(
        "tags",
        _id(),
        _text("name", unique=True),
        _text("author"),
        _text("status"),
        *map(_number, ("revision", "created_ns", "updated_ns")),
    )
    contents = table("contents", _id(), _number("intervals"))
    lists = table(
        "lists",
        _id(),
        sa.Column("type", sa.BigInteger, sa.ForeignKey(types.c.id), nullable=False),
        sa.Column("tag", sa.BigInteger, sa.ForeignKey(tags.c.id), nullable=True),
        # No foreign key: a clone would lock contents in another order than those who change them.
        sa.Column("content", sa.BigInteger, nullable=False),
        _number("created_ns"),
        sa.UniqueConstraint("tag", "type"),
        sa.Index("lists_type", "type"),
        sa.Index("lists_content", "content"),
    )
    # No foreign key here either: it would be looked up for each of many rows.
    breakpoints = table(
        "breakpoints",
        *(sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False) for name in ("content", *POINT[:2])),
        sa.Column("id", sa.BigInteger, nullable=True),
        *_payload(),
        # Not unique: copies of a content keep the ids.
        sa.Index("breakpoints_id", "id"),
    )
    loose = table(
        "loose_intervals",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        *_payload(),
        *map(_number, LOOSE[len(PAYLOAD) :]),
    )
    return ConditionsTables(
        types=types,
        tags=tags,
        contents=contents,
        lists=lists,
        breakpoints=breakpoints,
        loose=loose,
        detaching=table("detaching", sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False)),
    )


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger, primary_key=True)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def _text(name: str, *, unique: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(NAME_MOST), nullable=False, unique=unique)


def _payload() -> tuple[sa.Column[str], sa.Column[str], sa.Column[int], sa.Column[int]]:
    return (
        sa.Column("url", sa.String(URL_MOST), nullable=False),
        _text("checksum"),
        sa.Column("size", sa.BigInteger, nullable=True),
        _number("inserted_ns"),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Points:
    """Breakpoints of a list in columns of the same length n, in the order of their keys.

    keys: KEY_DTYPE. ids: int64, 0 is a gap. urls, checksums: object arrays of str. sizes: int64, -1 where nobody said.
    inserted_ns: int64.
    """

    keys: Array
    ids: Array
    urls: Array
    checksums: Array
    sizes: Array
    inserted_ns: Array

    def intervals(self, end: Key = END) -> Intervals:
        """The intervals, whose ends are where the next breakpoint is; end: where the one behind these is."""
        ends = np.empty(len(self.keys), KEY_DTYPE)
        ends[:-1] = self.keys[1:]
        ends[-1:] = np.array([tuple(end)], KEY_DTYPE)
        there = self.ids != 0
        return Intervals(
            ids=self.ids[there],
            starts=self.keys[there],
            ends=ends[there],
            urls=self.urls[there],
            checksums=self.checksums[there],
            sizes=self.sizes[there],
            inserted_ns=self.inserted_ns[there],
        )


def points_of(rows: Rows) -> Points:
    """Breakpoints of rows of the columns POINT."""
    keys = np.array([(major, minor) for major, minor, *_ in rows], KEY_DTYPE)
    payloads = [row[2:] for row in rows]
    return Points(
        keys=keys,
        ids=np.array([id_ or 0 for id_, *_ in payloads], np.int64),
        urls=texts([url for _, url, *_ in payloads]),
        checksums=texts([checksum for _, _, checksum, *_ in payloads]),
        sizes=np.array([-1 if size is None else size for *_, size, _ in payloads], np.int64),
        inserted_ns=np.array([inserted_ns for *_, inserted_ns in payloads], np.int64),
    )


class ConditionsSession(SqlSession):
    """One connection, used by one caller at a time.

    for_share: how a SELECT ends that lets others read, and not change, what it finds.
    """

    for_share: ClassVar[str]

    def __init__(self, tables: ConditionsTables) -> None:
        self._tables = tables
        names = (self.quoted(table.name) for table in tables.all())
        self.types, self.tags, self.contents, self.lists, self.breakpoints, self.loose, self.detaching = names

    # --- what a dialect has to have ------------------------------------------------------------------------------

    @abstractmethod
    async def take_ids(self, count: int) -> Sequence[int]:
        """Take so many ids of intervals, which nobody gets again."""

    @abstractmethod
    async def points(self, content: int) -> Points:
        """All breakpoints of a content."""

    @abstractmethod
    async def ends(self, points: Sequence[tuple[int, Key]]) -> Sequence[Key]:
        """For breakpoints, each named by content and key, where the next one is; END for the last one."""

    @abstractmethod
    async def valid_at(self, tag: str, key: Key) -> Rows:
        """What is valid at a key, and the tag, at one moment; no row where there is no such tag.

        A row has the columns REVISION of the tag; id and type of a list; the columns POINT of its last breakpoint at
        or before the key, major and minor of the first one after it. What is not there is NULL.
        """

    @abstractmethod
    def compare(self, sign: str, major: str, minor: str) -> str:
        """Compare the key of a breakpoint (columns major, minor) with another, so that the index is used."""

    # --- what follows from it --------------------------------------------------------------------------------------

    async def delete_points(self, content: int, ranges: Sequence[tuple[Key, Key]]) -> None:
        """Remove breakpoints of a content, from the first key of each range to its last."""
        many = [each for each in ranges if each[0] != each[1]]
        delete = f"DELETE FROM {self.breakpoints} WHERE content = $1"
        for first, last in many:
            within = f"{self.compare('>=', '$2', '$3')} AND {self.compare('<=', '$4', '$5')}"
            await self.run(f"{delete} AND {within}", content, *first, *last)
        keys = [first for first, last in ranges if first == last]
        for begin in range(0, len(keys), DELETED_AT_ONCE):
            some = keys[begin : begin + DELETED_AT_ONCE]
            values = [number for key in some for number in key]
            # An OR of equalities is what every optimizer here makes look-ups of.
            found = " OR ".join(f"(major = ${2 * k + 2} AND minor = ${2 * k + 3})" for k in range(len(some)))
            await self.run(f"{delete} AND ({found})", content, *values)

    async def around(self, content: int, start: Key, end: Key) -> Rows:
        """The columns POINT of what an interval may touch: the last before start, those up to end, and the newest."""
        select = f"SELECT {', '.join(POINT)} FROM {self.breakpoints} WHERE content = $1"
        down = "ORDER BY major DESC, minor DESC LIMIT 1"
        before = f"{select} AND {self.compare('<', '$2', '$3')} {down}"
        within = f"{select} AND {self.compare('>=', '$2', '$3')} AND {self.compare('<=', '$4', '$5')}"
        newest = f"SELECT * FROM ({select} {down}) n WHERE {self.compare('>', '$4', '$5')}"
        text = f"(SELECT * FROM ({before}) b) UNION ALL ({within}) UNION ALL ({newest})"
        return sorted(await self.fetch(text, content, *start, *end), key=lambda row: (row[0], row[1]))

    async def insert_points(self, content: int, rows: Rows) -> None:
        """Insert breakpoints; rows of the columns POINT."""
        if rows:
            await self.insert_rows("breakpoints", ("content", *POINT), [(content, *row) for row in rows])

    async def insert_loose(self, rows: Rows) -> None:
        """Insert intervals that are in no list; rows of the columns LOOSE."""
        if rows:
            await self.insert_rows("loose_intervals", LOOSE, rows)

    async def copy_content(self, content: int, to: int) -> None:
        """Copy all breakpoints of a content."""
        columns = ", ".join(POINT)
        await self.run(
            f"INSERT INTO {self.breakpoints} (content, {columns})"
            f" SELECT $2, {columns} FROM {self.breakpoints} WHERE content = $1 ORDER BY major, minor",
            *(content, to),
        )

    async def add_intervals(self, content: int, count: int) -> None:
        """Note how many intervals a content has more."""
        if count:
            await self.run(f"UPDATE {self.contents} SET intervals = intervals + $2 WHERE id = $1", content, count)


DELETED_AT_ONCE = 500

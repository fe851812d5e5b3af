"""The tables of conditions, declared once with SQLAlchemy Core and compiled for each SQL dialect.

`types`, `tags` and `lists` are what they say. A list has a row in `contents`, which lists of clones share until one of
them is changed; `breakpoints` are what a content holds: from a key on the payload of a row is valid, or nothing where
`id` is NULL, up to the next one. `loose_intervals` are in no list, and have ends. A list's name is not stored: it is
TYPE_ID. `detaching` has one row, which is there to be locked.
"""

from dataclasses import dataclass

import sqlalchemy as sa

from schemas.conditions.intervals import NAME_MOST, URL_MOST

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

"""The store of conditions in MariaDB and MySQL.

All breakpoints of a list are read in the binary protocol, as columns: texts are padded, so that all rows are alike.

What is valid at a key is asked so that MariaDB's optimizer needs a few steps in the primary key for each list. It makes
a range of an index of constants alone, and not of a comparison of rows, nor of columns of another table: a subquery for
each list would read all of the list. But the greatest or least value of the column that follows in the index, for each
value of those before it, it finds in one step ("Using index for group-by"). So that is what is asked, for all lists at
once: whether a list has a breakpoint with the same major, and else which other major is next.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import sqlalchemy as sa

from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import Field, ResultFormat
from backends.mysql.protocol.sql import quoted
from backends.mysql.session import MysqlSession, MysqlSessionStore
from backends.sql.conditions.session import (
    POINT,
    TAG_REVISION,
    ConditionsSession,
    ConditionsTables,
    Points,
    conditions_tables,
)
from backends.sql.conditions.store import SqlConditionsStore
from backends.sql.session import READ, Rows
from schemas.conditions.intervals import END, KEY_DTYPE, Key
from schemas.conditions.line import texts
from schemas.config import DatabaseConfig
from schemas.readings import Array

NUMBERS = ("major", "minor", "id", "size", "inserted_ns")


async def selected_points(connection: Connection, table: str, content: int) -> Points:
    """All breakpoints of a content, in a transaction that sees one moment."""
    where = f"FROM {table} WHERE content = {content}"
    ((url, checksum),) = await connection.fetch(
        f"SELECT COALESCE(MAX(LENGTH(url)), 0), COALESCE(MAX(LENGTH(checksum)), 0) {where}"
    )
    widths = {"url": max(1, url), "checksum": max(1, checksum)}
    # A text holds no NUL: it is refused.
    padded = ", ".join(f"RPAD(CAST({name} AS BINARY), {width}, x'00')" for name, width in widths.items())
    text = f"SELECT major, minor, COALESCE(id, 0), COALESCE(size, -1), inserted_ns, {padded} {where}"
    packets = await connection.select(f"{text} ORDER BY major, minor")
    fields = [Field(name, "<i8") for name in NUMBERS] + [Field(name, "u1", width) for name, width in widths.items()]
    columns, _ = ResultFormat(fields).parse(packets)
    keys = np.empty(len(packets), KEY_DTYPE)
    keys["major"], keys["minor"] = columns["major"], columns["minor"]
    return Points(
        keys=keys,
        ids=np.array(columns["id"]),
        urls=_texts(columns["url"]),
        checksums=_texts(columns["checksum"]),
        sizes=np.array(columns["size"]),
        inserted_ns=np.array(columns["inserted_ns"]),
    )


def _texts(padded: Array) -> Array:
    """Texts of bytes, uint8, shape (n, width)."""
    if not len(padded):
        return texts([])
    values = np.ascontiguousarray(padded).view(f"S{padded.shape[1]}")[:, 0].tolist()
    return texts(b"\0".join(values).decode().split("\0"))


HERE, BEFORE, AFTER, BEYOND = range(4)
"""The last breakpoint with the same major up to the key, and of a lesser one; the first behind it, and of a greater."""


async def valid_at(session: ConditionsSession, tag: str, key: Key) -> Rows:
    """Rows as of `ConditionsSession.valid_at`, in a transaction that sees one moment."""
    lists = await session.fetch(
        f"SELECT {TAG_REVISION}, l.id, y.name, l.content FROM {session.tags} t"
        f" LEFT JOIN {session.lists} l ON l.tag = t.id LEFT JOIN {session.types} y ON y.id = l.type WHERE t.name = $1",
        tag,
    )
    contents = sorted({row[-1] for row in lists if row[-1] is not None})
    found = (
        {(row[0], row[1]): row[2:] for row in await session.fetch(statement(session, contents, key))}
        if contents
        else {}
    )
    return [(*row[:-1], *_of(found, row[-1])) for row in lists]


def _of(found: Mapping[tuple[int, int], Sequence[Any]], content: int) -> Sequence[Any]:
    nothing = (None,) * len(POINT)
    last = found.get((HERE, content)) or found.get((BEFORE, content)) or nothing
    after = found.get((AFTER, content)) or found.get((BEYOND, content)) or nothing
    return (*last, *after[:2])


def statement(session: ConditionsSession, contents: Sequence[int], key: Key) -> str:
    """One statement for all contents; rows of which one it is, the content, and the columns POINT."""
    major, minor = key
    columns = ", ".join(f"b.{column}" for column in POINT)
    nothing = ", ".join(["NULL"] * (len(POINT) - 2))
    join = f"STRAIGHT_JOIN {session.breakpoints} b ON b.content = a.content"
    here = _grouped(session, contents, "MAX(minor) AS minor", f"major = {major} AND minor <= {minor}")
    before = _grouped(session, contents, "MAX(major) AS major", f"major < {major}")
    after = _grouped(session, contents, "MIN(minor) AS minor", f"major = {major} AND minor > {minor}")
    beyond = _grouped(session, contents, "MIN(major) AS major", f"major > {major}")
    is_last = f"b.major = a.major AND b.minor = ({_minor(session, 'DESC')})"
    parts = (
        f"SELECT {HERE}, b.content, {columns} FROM ({here}) a {join} AND b.major = {major} AND b.minor = a.minor",
        f"SELECT {BEFORE}, b.content, {columns} FROM ({before}) a {join} AND {is_last}",
        f"SELECT {AFTER}, a.content, {major}, a.minor, {nothing} FROM ({after}) a",
        f"SELECT {BEYOND}, a.content, a.major, ({_minor(session, 'ASC')}), {nothing} FROM ({beyond}) a",
    )
    return " UNION ALL ".join(f"({part})" for part in parts)


def _grouped(session: ConditionsSession, contents: Sequence[int], wanted: str, where: str) -> str:
    return (
        f"SELECT content, {wanted} FROM {session.breakpoints} FORCE INDEX (PRIMARY)"
        f" WHERE content IN ({', '.join(map(str, contents))}) AND {where} GROUP BY content"
    )


def _minor(session: ConditionsSession, order: str) -> str:
    """The last or first minor of a major: one step from the end of what the index has of it."""
    return (
        f"SELECT x.minor FROM {session.breakpoints} x WHERE x.content = a.content AND x.major = a.major"
        f" ORDER BY x.minor {order} LIMIT 1"
    )


IDS = "interval_ids"
MOST_IDS = 65_535
"""The greatest auto_increment_increment."""
ENDS_AT_ONCE = 250


class MysqlConditionsSession(MysqlSession, ConditionsSession):
    """A connection; see `MysqlSession`."""

    for_share: ClassVar[str] = "LOCK IN SHARE MODE"

    def __init__(self, connection: Connection, schema: str, timeout_s: float, tables: ConditionsTables) -> None:
        MysqlSession.__init__(self, connection, schema, timeout_s)
        ConditionsSession.__init__(self, tables)

    async def take_ids(self, count: int) -> Sequence[int]:
        """Take ids of a table that only counts.

        An AUTO_INCREMENT is no part of the transaction: nobody waits, and no id comes twice. With an increment of n the
        next id that anybody gets is at least n more, so n of them are ours. A server that starts goes on behind the
        last id that any row had, whatever the increment was: so the last one of ours has a row, too.
        """
        ids: list[int] = []
        while len(ids) < count:
            many = min(MOST_IDS, count - len(ids))
            table = self.quoted(IDS)
            await self.run(
                f"SET SESSION auto_increment_increment = {many};INSERT INTO {table} VALUES (NULL);"
                f"SET SESSION auto_increment_increment = 1"
            )
            first = await self._last_id()
            ids += range(first, first + many)
            if many > 1:
                await self.run(f"INSERT INTO {table} VALUES ($1)", ids[-1])
            await self.run(f"DELETE FROM {table} WHERE id IN ($1, $2)", first, ids[-1])
        return ids

    async def points(self, content: int) -> Points:
        """All breakpoints of a content."""
        async with asyncio.timeout(self._timeout_s):
            return await selected_points(self.connection, self.breakpoints, content)

    async def ends(self, points: Sequence[tuple[int, Key]]) -> Sequence[Key]:
        """Where the breakpoints behind these are."""
        ends = [END] * len(points)
        for first in range(0, len(points), ENDS_AT_ONCE):
            some = enumerate(points[first : first + ENDS_AT_ONCE], start=first)
            text = " UNION ALL ".join(f"({self._next(number, *point)})" for number, point in some)
            for number, major, minor in await self.fetch(text):
                ends[number] = Key(major, minor)
        return ends

    def _next(self, number: int, content: int, key: Key) -> str:
        """With constants, of which the optimizer makes a range."""
        behind = self.compare(">", str(key.major), str(key.minor))
        return (
            f"SELECT {number}, major, minor FROM {self.breakpoints} FORCE INDEX (PRIMARY)"
            f" WHERE content = {content} AND {behind} ORDER BY major, minor LIMIT 1"
        )

    async def valid_at(self, tag: str, key: Key) -> Rows:
        """What is valid at a key."""
        await self.begin(READ)
        rows = await valid_at(self, tag, key)
        await self.end(commit=True)
        return rows

    def compare(self, sign: str, major: str, minor: str) -> str:
        """Compare keys column by column: the optimizer makes a range of that, and none of a comparison of rows."""
        return f"(major {sign[0]} {major} OR (major = {major} AND minor {sign} {minor}))"


class MysqlConditionsStore(MysqlSessionStore[MysqlConditionsSession], SqlConditionsStore[MysqlConditionsSession]):
    """Conditions in MariaDB and MySQL; its methods promise what `ConditionsStore` says."""

    what: ClassVar[str] = "conditions"

    def __init__(self, database: DatabaseConfig, *, schema: str, password: str | None, connections: int) -> None:
        super().__init__(database, MysqlConditionsSession, schema=schema, password=password, connections=connections)
        self._tables = conditions_tables(schema)

    def _session(self, connection: Connection) -> MysqlConditionsSession:
        return MysqlConditionsSession(connection, self._schema, self._timeout_s, self._tables)

    def _all_tables(self) -> Sequence[sa.Table]:
        return self._tables.all()

    def _beside_tables(self) -> Sequence[str]:
        ids = f"{quoted(self._schema, IDS)} (id BIGINT AUTO_INCREMENT PRIMARY KEY)"
        detaching = quoted(self._schema, self._tables.detaching.name)
        return [
            f"CREATE TABLE IF NOT EXISTS {ids} ENGINE=InnoDB",
            f"INSERT IGNORE INTO {detaching} VALUES (1)",
        ]


def open_conditions_store(
    database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None = None, connections: int = 4
) -> MysqlConditionsStore:
    """Make the store; see `backends.open_conditions_store`. Nothing lies under `state_dir`."""
    return MysqlConditionsStore(database, schema=schema, password=password, connections=connections)

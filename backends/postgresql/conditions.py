"""The store of conditions in PostgreSQL, named by a DSN or embedded.

All breakpoints of a list are taken out by COPY: numbers as fixed rows, texts by splitting, no object a row but texts.
A row of both would have no fixed length. So there are two COPYs, of the same rows in the same order.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import sqlalchemy as sa

from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.copy import RowFormat
from backends.postgresql.protocol.output import copied_text
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.session import PostgresqlSession, PostgresqlSessionStore
from backends.sql.conditions.session import (
    POINT,
    TAG_REVISION,
    ConditionsSession,
    ConditionsTables,
    Points,
    conditions_tables,
)
from backends.sql.conditions.store import SqlConditionsStore
from backends.sql.session import Rows
from schemas.conditions.intervals import END, KEY_DTYPE, Key
from schemas.conditions.line import texts
from schemas.config import DatabaseConfig

NUMBERS = RowFormat([(name, "<i8", 0) for name in ("major", "minor", "id", "size", "inserted_ns")])
# int8send would not be needed: COPY in binary sends each as 8 bytes. NULL has none, so there are no NULLs.
SELECT_NUMBERS = "SELECT major, minor, coalesce(id, 0), coalesce(size, -1), inserted_ns"
ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
"""https://www.postgresql.org/docs/current/sql-copy.html, "Text Format"; any other character stands for itself."""


async def copied_points(connection: Connection, table: str, content: int) -> Points:
    """All breakpoints of a content, in a transaction that sees one moment."""
    source = f"FROM {table} WHERE content = {content} ORDER BY major, minor"
    rows = NUMBERS.parse(await copied_text(connection, f"{SELECT_NUMBERS} {source}"))
    urls, checksums = _texts(await _text_file(connection, f"SELECT url, checksum {source}"))
    keys = np.empty(len(rows), KEY_DTYPE)
    keys["major"], keys["minor"] = rows["major"], rows["minor"]
    return Points(
        keys=keys,
        ids=rows["id"].astype(np.int64),
        urls=texts(urls),
        checksums=texts(checksums),
        sizes=rows["size"].astype(np.int64),
        inserted_ns=rows["inserted_ns"].astype(np.int64),
    )


async def _text_file(connection: Connection, select: str) -> str:
    answer = bytearray()

    async def take(chunk: bytes) -> None:
        answer.extend(chunk)

    await connection.copy_from_query(select, output=take, format="text", encoding="utf-8")
    return answer.decode()


def _texts(lines: str) -> tuple[list[str], list[str]]:
    """Two columns of a COPY file in text format, without NULLs."""
    fields = lines.replace("\t", "\n").split("\n")[:-1]
    if "\\" in lines:
        fields = [_unescaped(field) for field in fields]
    return fields[0::2], fields[1::2]


def _unescaped(field: str) -> str:
    first, *rest = field.split("\\")
    whole, parts = [first], iter(rest)
    # Nothing between two backslashes: the second one stands for itself.
    whole += (ESCAPES.get(part[0], part[0]) + part[1:] if part else "\\" + next(parts, "") for part in parts)
    return "".join(whole)


IDS = "interval_ids"
"""The sequence of ids of intervals."""


class PostgresqlConditionsSession(PostgresqlSession, ConditionsSession):
    """A connection; see `PostgresqlSession`."""

    for_share: ClassVar[str] = "FOR SHARE"

    def __init__(self, connection: Connection, schema: str, timeout_s: float, tables: ConditionsTables) -> None:
        PostgresqlSession.__init__(self, connection, schema, timeout_s)
        ConditionsSession.__init__(self, tables)
        self._valid_at = _valid_at(self)

    async def take_ids(self, count: int) -> Sequence[int]:
        """Take ids of the sequence."""
        text = f"SELECT array_agg(nextval('{self.quoted(IDS)}')) FROM generate_series(1, $1)"
        ((ids,),) = await self.fetch(text, count)
        return list(ids)

    async def points(self, content: int) -> Points:
        """All breakpoints of a content."""
        async with self.in_time() as connection:
            return await copied_points(connection, self.breakpoints, content)

    async def ends(self, points: Sequence[tuple[int, Key]]) -> Sequence[Key]:
        """Where the breakpoints behind these are."""
        next_one = _after(self, "p.content", "(p.major, p.minor)")
        found = await self.fetch(
            "SELECT n.major, n.minor FROM unnest($1::int8[], $2::int8[], $3::int8[])"
            f" WITH ORDINALITY p(content, major, minor, number) LEFT JOIN LATERAL ({next_one}) n ON true"
            " ORDER BY p.number",
            *([content for content, _ in points], [key.major for _, key in points], [key.minor for _, key in points]),
        )
        return [END if major is None else Key(major, minor) for major, minor in found]

    async def valid_at(self, tag: str, key: Key) -> Rows:
        """What is valid at a key, by one prepared statement."""
        return await self.fetch(self._valid_at, tag, *key)

    def compare(self, sign: str, major: str, minor: str) -> str:
        """Compare keys as rows: one condition of the index."""
        return f"(major, minor) {sign} ({major}, {minor})"


def _last(session: ConditionsSession, content: str, key: str) -> str:
    """The last breakpoint at or before a key."""
    return (
        f"SELECT {', '.join(POINT)} FROM {session.breakpoints} WHERE content = {content} AND (major, minor) <= {key}"
        " ORDER BY major DESC, minor DESC LIMIT 1"
    )


def _after(session: ConditionsSession, content: str, key: str) -> str:
    """Where the first one behind a key is."""
    return (
        f"SELECT major, minor FROM {session.breakpoints} WHERE content = {content} AND (major, minor) > {key}"
        " ORDER BY major, minor LIMIT 1"
    )


def _valid_at(session: ConditionsSession) -> str:
    key = "($2::int8, $3::int8)"
    last, after = _last(session, "l.content", key), _after(session, "l.content", key)
    columns = ", ".join(f"b.{column}" for column in POINT)
    return (
        f"SELECT {TAG_REVISION}, l.id, y.name, {columns}, e.major, e.minor FROM {session.tags} t"
        f" LEFT JOIN {session.lists} l ON l.tag = t.id LEFT JOIN {session.types} y ON y.id = l.type"
        f" LEFT JOIN LATERAL ({last}) b ON true LEFT JOIN LATERAL ({after}) e ON true WHERE t.name = $1"
    )


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


def open_conditions_store(
    database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None = None, connections: int = 4
) -> PostgresqlConditionsStore:
    """Make the store; without a DSN in the embedded server under `state_dir`, which has to run already."""
    return PostgresqlConditionsStore(
        database, schema=schema, state_dir=state_dir, password=password, connections=connections
    )

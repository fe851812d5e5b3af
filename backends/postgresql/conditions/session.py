"""One connection to conditions in PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, cast

from backends.postgresql.conditions.copying import copied_points
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.server.driver import DRIVER
from backends.sql.conditions.session import READ, ConditionsSession, Points, Rows
from backends.sql.conditions.tables import POINT, TAG_REVISION, ConditionsTables
from backends.sql.connection import Driver
from schemas.conditions.intervals import END, Key

BEGIN = {
    READ: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "write": "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
}
FEW = 64
"""So many rows are inserted by a statement that is prepared; COPY is faster for more."""
IDS = "interval_ids"
"""The sequence of ids of intervals."""


class PostgresqlConditionsSession(ConditionsSession):
    """A connection. command_timeout_s: after it a call is given up, and the connection with it."""

    for_share: ClassVar[str] = "FOR SHARE"

    def __init__(self, connection: Connection, schema: str, tables: ConditionsTables, command_timeout_s: float) -> None:
        self._schema = schema
        super().__init__(tables)
        self.connection = connection
        self._timeout_s = command_timeout_s
        self._valid_at = _valid_at(self)

    def quoted(self, table: str) -> str:
        """Name of a table of the schema, quoted."""
        return quoted(self._schema, table)

    def terminate(self) -> None:
        """End the connection now."""
        self.connection.terminate()

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[Connection]:
        """The connection, for one call."""
        async with asyncio.timeout(self._timeout_s):
            yield self.connection

    async def begin(self, kind: str) -> None:
        """Begin a transaction."""
        await self.run(BEGIN[kind])

    async def end(self, *, commit: bool) -> None:
        """Commit the transaction, or roll it back."""
        await self.run("COMMIT" if commit else "ROLLBACK")

    async def fetch(self, text: str, *values: Any) -> Rows:
        """The rows that a query finds."""
        async with self.in_time() as connection:
            return cast("Rows", await connection.fetch(text, *values))

    async def run(self, text: str, *values: Any) -> None:
        """Run a statement that gives no rows."""
        async with self.in_time() as connection:
            await connection.execute(text, *values)

    async def insert(self, table: str, **values: Any) -> int | None:
        """Insert a row; None where its name is taken."""
        places = ", ".join(f"${number}" for number in range(1, len(values) + 1))
        text = f"INSERT INTO {self.quoted(table)} ({', '.join(values)}) VALUES ({places})"
        found = await self.fetch(f"{text} ON CONFLICT DO NOTHING RETURNING id", *values.values())
        return int(found[0][0]) if found else None

    async def insert_rows(self, table: str, columns: Sequence[str], rows: Rows) -> None:
        """Insert rows."""
        async with self.in_time() as connection:
            if len(rows) <= FEW:
                places = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
                text = f"INSERT INTO {self.quoted(table)} ({', '.join(columns)}) VALUES ({places})"
                await connection.executemany(text, rows)
            else:
                await connection.copy_records_to_table(table, records=rows, columns=columns, schema_name=self._schema)

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


SESSION_DRIVER: Driver[PostgresqlConditionsSession] = DRIVER.over(lambda session: session.connection)

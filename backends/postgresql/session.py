"""One connection to PostgreSQL for stores whose calls are transactions."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.server.driver import DRIVER
from backends.sql.connection import Driver
from backends.sql.session import READ, Rows, SqlSession

BEGIN = {
    READ: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "write": "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
}
FEW = 64
"""So many rows are inserted by a statement that is prepared; COPY is faster for more."""


class PostgresqlSession(SqlSession):
    """A connection. timeout_s: after it a call is given up, and the connection with it."""

    def __init__(self, connection: Connection, schema: str, timeout_s: float) -> None:
        self._schema = schema
        self._timeout_s = timeout_s
        self.connection = connection

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


S = TypeVar("S", bound=PostgresqlSession)


def session_driver(_: type[S]) -> Driver[S]:
    """What a store needs of the driver, for its kind of session."""
    connection_of: Callable[[S], Connection] = lambda session: session.connection  # noqa: E731
    return DRIVER.over(connection_of)

"""One connection to MariaDB or MySQL for stores whose calls are transactions."""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from pymysql.err import IntegrityError

from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import literal, quoted
from backends.mysql.server.driver import DRIVER
from backends.mysql.server.errors import number_of
from backends.sql.connection import Driver
from backends.sql.session import READ, WRITE, Rows, SqlSession

BEGIN = {
    READ: "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    WRITE: "START TRANSACTION",
}
DUPLICATE = 1062
STATEMENT_BYTES = 1 << 20
"""About how long an INSERT of many rows becomes."""


class MysqlSession(SqlSession):
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

    async def begin(self, kind: str) -> None:
        """Begin a transaction."""
        await self.run(BEGIN[kind])

    async def end(self, *, commit: bool) -> None:
        """Commit the transaction, or roll it back."""
        await self.run("COMMIT" if commit else "ROLLBACK")

    async def fetch(self, text: str, *values: Any) -> Rows:
        """The rows that a query finds."""
        async with asyncio.timeout(self._timeout_s):
            return await self.connection.fetch(_filled(text, values))

    async def run(self, text: str, *values: Any) -> None:
        """Run a statement that gives no rows."""
        async with asyncio.timeout(self._timeout_s):
            await self.connection.run(_filled(text, values))

    async def insert(self, table: str, **values: Any) -> int | None:
        """Insert a row; None where its name is taken."""
        row = ", ".join(map(_literal, values.values()))
        try:
            await self.run(f"INSERT INTO {self.quoted(table)} ({', '.join(values)}) VALUES ({row})")
        except IntegrityError as error:
            if number_of(error) != DUPLICATE:
                raise
            return None
        return await self._last_id()

    async def insert_rows(self, table: str, columns: Sequence[str], rows: Rows) -> None:
        """Insert rows, many with a statement."""
        head = f"INSERT INTO {self.quoted(table)} ({', '.join(columns)}) VALUES "
        for values in _batches(rows, min(STATEMENT_BYTES, self.connection.max_packet // 2)):
            await self.run(head + values)

    async def _last_id(self) -> int:
        ((id_,),) = await self.fetch("SELECT LAST_INSERT_ID()")
        return int(id_)


def _batches(rows: Rows, most_bytes: int) -> Iterator[str]:
    """Rows as lists of values, of about so many bytes."""
    some: list[str] = []
    size = 0
    for row in rows:
        values = f"({','.join(map(_literal, row))})"
        if some and size + len(values) > most_bytes:
            yield ",".join(some)
            some, size = [], 0
        some.append(values)
        size += len(values)
    yield ",".join(some)


def _filled(text: str, values: Sequence[Any]) -> str:
    return re.sub(r"\$(\d+)", lambda found: _literal(values[int(found[1]) - 1]), text) if values else text


def _literal(value: str | int | bytes | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return literal(value) if isinstance(value, str) else str(value)


S = TypeVar("S", bound=MysqlSession)


def session_driver(_: type[S]) -> Driver[S]:
    """What a store needs of the driver, for its kind of session."""
    connection_of: Callable[[S], Connection] = lambda session: session.connection  # noqa: E731
    return DRIVER.over(connection_of)

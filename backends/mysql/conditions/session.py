"""One connection to conditions in MariaDB or MySQL."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from pymysql.err import IntegrityError

from backends.mysql.conditions.rows import selected_points
from backends.mysql.conditions.valid import valid_at
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import literal, quoted
from backends.mysql.server.driver import DRIVER
from backends.mysql.server.errors import number_of
from backends.sql.conditions.session import READ, WRITE, ConditionsSession, Points, Rows
from backends.sql.conditions.tables import ConditionsTables
from backends.sql.connection import Driver
from schemas.conditions.intervals import END, Key

BEGIN = {
    READ: "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    WRITE: "START TRANSACTION",
}
DUPLICATE = 1062
STATEMENT_BYTES = 1 << 20
"""About how long an INSERT of many rows becomes."""
IDS = "interval_ids"
MOST_IDS = 65_535
"""The greatest auto_increment_increment."""
ENDS_AT_ONCE = 250


class MysqlConditionsSession(ConditionsSession):
    """A connection. command_timeout_s: after it a call is given up, and the connection with it."""

    for_share: ClassVar[str] = "LOCK IN SHARE MODE"

    def __init__(self, connection: Connection, schema: str, tables: ConditionsTables, command_timeout_s: float) -> None:
        self._schema = schema
        super().__init__(tables)
        self.connection = connection
        self._timeout_s = command_timeout_s

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


def _literal(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    return literal(value) if isinstance(value, str) else str(value)


SESSION_DRIVER: Driver[MysqlConditionsSession] = DRIVER.over(lambda session: session.connection)

"""One connection to conditions in MariaDB or MySQL."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from backends.mysql.conditions.rows import selected_points
from backends.mysql.conditions.valid import valid_at
from backends.mysql.protocol.connection import Connection
from backends.mysql.session import MysqlSession
from backends.sql.conditions.session import ConditionsSession, ConditionsTables, Points
from backends.sql.session import READ, Rows
from schemas.conditions.intervals import END, Key

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

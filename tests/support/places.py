"""Two places for readings on a real server, for tests of moves: a tablespace of PostgreSQL, a directory of MariaDB.

The schema has the group `bpm`, unless another is named.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, Self

import aiomysql
import asyncpg

from backends.mysql.schema.partitions import places_of
from backends.mysql.server.address import address_of

SLOW = "slow"


class Places(Protocol):
    """A place besides the server's own, and a connection of somebody else to the schema that has the group.

    slow: the other place, by its name. changes: statements that change a period of the table; of its name in the
    server, {name}.
    """

    slow: str
    changes: tuple[str, ...]

    async def run(self, text: str) -> None:
        """Run a statement."""

    async def tables(self) -> set[str]:
        """All that lies there of single periods of the group, and files that are of none."""

    def reading(self) -> AsyncIterator[None]:
        """A transaction that has read the group's table."""


class PostgresqlPlaces:
    """A tablespace in the server's own folder."""

    slow = SLOW
    changes = (
        "DELETE FROM bpm WHERE run = 1",
        "UPDATE bpm SET run = run",
        "TRUNCATE bpm",
        'DELETE FROM "bpm${name}$leaf" WHERE run = 1',
        'UPDATE "bpm${name}$leaf" SET run = run',
        'TRUNCATE "bpm${name}$leaf"',
    )

    def __init__(self, connection: asyncpg.Connection, schema: str, group: str) -> None:
        self.connection = connection
        self._schema = schema
        self._group = group

    @classmethod
    @asynccontextmanager
    async def opened(cls, dsn: str, schema: str, group: str = "bpm") -> AsyncIterator[Self]:
        """Make the tablespace where it is not there."""
        connection = await asyncpg.connect(dsn, server_settings={"search_path": schema})
        try:
            if not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_tablespace WHERE spcname = $1)", SLOW):
                await connection.execute("SET allow_in_place_tablespaces = on")
                await connection.execute(f"CREATE TABLESPACE {SLOW} LOCATION ''")
            yield cls(connection, schema, group)
        finally:
            await connection.close()

    async def run(self, text: str) -> None:
        await self.connection.execute(text)

    async def tables(self) -> set[str]:
        found = await self.connection.fetch(
            f"SELECT relname FROM pg_class WHERE relnamespace = '{self._schema}'::regnamespace"
        )
        names = {row["relname"] for row in found}
        return {name for name in names if name.startswith(f"{self._group}$") and "_idx" not in name}

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        async with self.connection.transaction():
            await self.connection.execute("SELECT run FROM bpm LIMIT 1")
            yield


class MysqlPlaces:
    """A directory beside the server's."""

    changes = (
        "DELETE FROM bpm PARTITION (p{name}) LIMIT 1",
        "UPDATE bpm PARTITION (p{name}) SET run = run + 1 ORDER BY time_ns DESC LIMIT 1",
        "UPDATE bpm PARTITION (p{name}) SET time_ns = time_ns + 1 ORDER BY time_ns DESC LIMIT 1",
        "ALTER TABLE bpm TRUNCATE PARTITION p{name}",
    )

    def __init__(self, connection: aiomysql.Connection, schema: str, folder: Path, group: str) -> None:
        self.connection = connection
        self._schema = schema
        self._group = group
        self.slow = str(folder)

    @classmethod
    @asynccontextmanager
    async def opened(cls, dsn: str, schema: str, folder: Path, group: str = "bpm") -> AsyncIterator[Self]:
        """Connect; the server makes the folder."""
        address = address_of(dsn)
        connection = await aiomysql.connect(host=address.host, port=address.port, user=address.user, autocommit=True)
        try:
            yield cls(connection, schema, folder, group)
        finally:
            connection.close()

    async def fetch(self, text: str) -> list[tuple[object, ...]]:
        """What a query finds."""
        await self.connection.query(f"USE `{self._schema}`")
        await self.connection.query(text)
        return list(self.connection._result.rows or ())

    async def run(self, text: str) -> None:
        await self.fetch(text)

    async def tables(self) -> set[str]:
        tables = {str(name) for (name,) in await self.fetch(f"SHOW TABLES LIKE '{self._group}$%'")}
        ((_, definition),) = await self.fetch(f"SHOW CREATE TABLE {self._group}")
        there = {
            f"{self._group}#P#{name}.ibd" for name, place in places_of(str(definition)).items() if place == self.slow
        }
        return tables | (_files(Path(self.slow)) ^ there)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        await self.fetch("START TRANSACTION")
        await self.fetch("SELECT run FROM bpm LIMIT 1")
        yield
        await self.fetch("ROLLBACK")


def _files(folder: Path) -> set[str]:
    """What lies in a directory of the server, of all its databases."""
    return {file.name for file in folder.glob("*/*")}

"""The store of visits in PostgreSQL: visits, their steps' marks, and around them the tables of the index mode."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import asyncpg
import numpy as np

from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.visits.connection import PostgresqlVisitConnection
from backends.postgresql.visits.tables import STEPS, VISITS, VisitTables, create_or_check
from backends.visits.base import VisitDone, VisitsLost, see_nothing_lost
from backends.visits.store import SessionVisitStore
from schemas.api.visits import TableSize
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import POINTING_DTYPE, Compacted, Seconds, TileWrite, VisitRecord
from schemas.visits.tables import Step

SCAN = "SET LOCAL enable_seqscan = on"
"""For what really asks for whole tables."""


class PostgresqlVisitStore(SessionVisitStore[Connection]):
    """Store of visits in PostgreSQL 14 or newer; see `backends.visits.base.VisitStore` for what its methods promise."""

    _tables: VisitTables

    def __init__(self, connection: PostgresqlVisitConnection, visits: VisitsConfig, tables: VisitTables) -> None:
        super().__init__(visits, tables)
        self._connection = connection
        connection.renewed = tables.forget
        schema = visits.schema_name
        self._schema = quoted(schema)
        self._done, self._marks = quoted(schema, VISITS), quoted(schema, STEPS)

    def _session(self) -> AbstractAsyncContextManager[Connection]:
        return self._connection.session(self._connection.limits.session_s)

    @asynccontextmanager
    async def _long_session(self) -> AsyncIterator[Connection]:
        async with self._connection.session(None) as connection, connection.transaction(readonly=True):
            await connection.execute(SCAN)
            yield connection

    async def create(self) -> None:
        """Create the schema and the tables, or check those that are there."""
        await self._try(commits=True)

    async def check(self) -> None:
        """Do what `create` would, and take it back."""
        await self._try(commits=False)

    async def _try(self, *, commits: bool) -> None:
        await self._connection.see_no_pooler()
        async with self._session() as connection:
            target = self._connection.target
            await create_or_check(connection, self._visits, self._tables, target, commits=commits)

    async def close(self) -> None:
        """Give back the connection."""
        await self._connection.close()

    async def hold(self) -> None:
        """Keep every other store from holding the schema."""
        await self._connection.hold()

    async def release(self) -> None:
        """Hold it no longer."""
        await self._connection.release()

    async def last_visit(self) -> VisitRecord | None:
        """The last visit that is done."""
        async with self._session() as connection:
            found = await connection.fetchrow(f"SELECT * FROM {self._done} ORDER BY visit DESC LIMIT 1")
        return VisitRecord(**found) if found else None

    async def first_visit_since(self, time_ns: int) -> int | None:
        """Number of the first visit that is done and was taken at `time_ns` or later."""
        async with self._session() as connection:
            # Later visits have later times: one step in the index of times, however many visits there are.
            found = await connection.fetchval(
                f"SELECT visit FROM {self._done} WHERE time_ns >= $1 ORDER BY time_ns LIMIT 1", time_ns
            )
        return None if found is None else int(found)

    async def pointings(self, most: int) -> Array:
        """Where the newest visits looked."""
        async with self._session() as connection:
            try:
                found = await connection.fetch(
                    f"SELECT visit, time_ns, ra, decl FROM {self._done} ORDER BY visit DESC LIMIT $1", most
                )
            except asyncpg.UndefinedTableError:
                found = []
        return np.array([tuple(each) for each in found], POINTING_DTYPE)

    async def begin(self, visit: int, time_ns: int) -> frozenset[tuple[int, Step]]:
        """Prepare what a visit needs; return what an earlier try committed of it."""
        async with self._session() as connection:
            await self._tables.begin(connection, time_ns)
            # At one moment: the end of a visit takes its marks away, and could be committed between two questions.
            found = await connection.fetch(
                f"SELECT tile, step FROM {self._marks} WHERE visit = $1"
                f" UNION ALL SELECT (visit - $1)::int4, NULL FROM {self._done} WHERE visit BETWEEN $1 - 1 AND $1",
                visit,
            )
        done = {mark["tile"] for mark in found if mark["step"] is None}
        if 0 in done:
            raise VisitDone(visit)
        if visit and -1 not in done:
            raise VisitsLost(visit - 1)
        return frozenset((mark["tile"], Step(mark["step"])) for mark in found if mark["step"] is not None)

    async def write(self, write: TileWrite) -> Seconds:
        """Commit a tile's steps with their marks; a step whose mark is there is there, and is not written again."""
        seconds: dict[str, float] = {}
        async with self._session() as connection:
            transaction = connection.transaction()
            await transaction.start()
            for step in await self._mark(connection, write):
                seconds |= await self._tables.store(connection, step, write)
            began = time.perf_counter()
            await transaction.commit()
            seconds["commit_s"] = time.perf_counter() - began
        return seconds

    async def _mark(self, connection: Connection, write: TileWrite) -> list[Step]:
        marked = await connection.fetch(
            f"INSERT INTO {self._marks} SELECT $1, $2, unnest($3::text[]) ON CONFLICT DO NOTHING RETURNING step",
            *(write.visit, write.tile, list(write.steps)),
        )
        return [Step(row["step"]) for row in marked]

    async def finish(self, record: VisitRecord, steps: int | None = None) -> None:
        """Mark a visit as done, and forget the marks of its steps."""
        async with self._session() as connection, connection.transaction():
            found = await connection.fetchrow(
                f"SELECT EXISTS (SELECT FROM {self._done} WHERE visit = $1),"
                f" $1 = 0 OR EXISTS (SELECT FROM {self._done} WHERE visit = $1 - 1),"
                f" (SELECT count(*) FROM {self._marks} WHERE visit = $1)",
                record.visit,
            )
            assert found is not None
            is_done, follows, marked = found
            if not is_done:
                see_nothing_lost(record.visit, follows, marked, steps)
            await connection.execute(
                f"INSERT INTO {self._done} (visit, time_ns, ra, decl, last_object_id, last_source_id)"
                " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
                *(record.visit, record.time_ns, record.ra, record.decl),
                *(record.last_object_id, record.last_source_id),
            )
            await connection.execute(f"DELETE FROM {self._marks} WHERE visit = $1", record.visit)

    async def expire(self, before_ns: int) -> bool:
        """Drop the partitions of periods that end before a time, where there are any."""
        async with self._session() as connection:
            return await self._tables.expire(connection, before_ns)

    async def uncompacted(self, before_ns: int) -> Sequence[tuple[str, int]]:
        """Tables and periods that ended before a time and can be compacted."""
        async with self._session() as connection:
            return await self._tables.uncompacted(connection, before_ns)

    async def compact(self, table: str, period: int) -> Compacted | None:
        """Rewrite a table's packs of a period; None where somebody's reading stands in the way."""
        async with self._connection.session(None) as connection:
            return await self._tables.compact(connection, table, period)

    async def sizes(self) -> Mapping[str, TableSize]:
        """Rows and bytes of each table."""
        async with self._session() as connection, connection.transaction(readonly=True):
            await connection.execute(SCAN)
            return {name: await self._tables.size(connection, name) for name in self._names}

    async def drop(self) -> None:
        """Remove the schema with everything in it."""
        async with self._connection.session(None) as connection:
            await connection.execute(f"DROP SCHEMA IF EXISTS {self._schema} CASCADE")

"""The store of visits in PostgreSQL: visits, their steps' marks, and around them the tables of the index mode.

A worker has one connection: made when needed, named to the server, given up when anything goes wrong.
"""

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

import asyncpg
import numpy as np

from backends.base import ReadOnly
from backends.postgresql.protocol.connection import Connection, target_of
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.server.connecting import connect, milliseconds, see_no_pooler
from backends.postgresql.server.driver import DRIVER
from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.postgresql.server.errors import login_refused, taken_too_long, translated
from backends.postgresql.visits.tables import STEPS, VISITS, VisitTables, create_or_check
from backends.sql.visits import SqlVisitStore, VisitConnection
from backends.visits.base import VisitDone, VisitsLost, see_nothing_lost
from backends.visits.store import Limits
from schemas.api.visits import TableSize
from schemas.batch import Durability
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import POINTING_DTYPE, Compacted, Seconds, TileWrite, VisitRecord
from schemas.visits.tables import Step

# A number that a pooler gave is that of nobody, or of somebody else.
INTERRUPT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid = $1 AND state = 'active' AND usename = session_user AND application_name = 'triggerlog visits'
"""


class PostgresqlVisitConnection(VisitConnection[Connection]):
    """A connection that takes one call at a time; with `read_only` one that only asks."""

    def __init__(
        self,
        database: DatabaseConfig,
        visits: VisitsConfig,
        state_dir: Path,
        *,
        password: str | None = None,
        read_only: ReadOnly | None = None,
    ) -> None:
        self._database = database
        self._read_only = read_only
        limits = Limits(
            answer_s=read_only.give_up_s if read_only else database.command_timeout_s,
            statement_s=None if read_only else visits.statement_timeout_s,
        )
        self._durability = visits.durability
        self._password = password
        self._server = EmbeddedPostgresql(state_dir) if database.dsn is None else None
        super().__init__(
            DRIVER,
            schema=visits.schema_name,
            target=target_of(database.dsn) if database.dsn else "embedded PostgreSQL",
            connect=self._make,
            guarded=self._translated,
            limits=limits,
            interrupt=interrupt,
        )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        given_up = taken_too_long(self.target, self.limits.answer_s) if self._read_only else nullcontext()
        with translated(self.target), login_refused(), given_up:
            yield

    async def see_no_pooler(self) -> None:
        """See that the connection has a session of the server to itself; a worker's is like that of its run.

        Raises:
            ConfigurationRefused: it has not.
        """
        if self._database.dsn is not None:
            timeout_s = self._database.command_timeout_s
            with self._translated():
                await see_no_pooler(
                    self._database.dsn, password=self._password, timeout_s=timeout_s, target=self.target
                )

    async def _make(self) -> Connection:
        if self._read_only is not None:
            await self.see_no_pooler()  # nobody creates it
        with translated(self.target):
            return await connect(
                self._dsn(),
                password=self._password,
                timeout_s=self._database.command_timeout_s,
                program=f"triggerlog visits{' reader' if self._read_only else ''}",
                settings=self._settings(),
                give_up_s=self._read_only.give_up_s if self._read_only else None,
            )

    def _dsn(self) -> str | None:
        return self._database.dsn if self._server is None else self._server.running()

    def _settings(self) -> dict[str, str]:
        settings = {
            # Tables that grow from nothing have no statistics, or old ones, and a scan of all then looks cheap: what a
            # visit asks is always for an index.
            "enable_seqscan": "off",
            "jit": "off",
            # A worker is one of many: decision 0029 says the same of readers.
            "max_parallel_workers_per_gather": "0",
        }
        if self._durability is Durability.ASYNC:
            settings["synchronous_commit"] = "off"
        if self._read_only is None:
            # A wait for a lock is no slow statement.
            settings["lock_timeout"] = milliseconds(self._database.command_timeout_s)
        return settings


async def interrupt(fresh: Connection, late: Connection) -> bool:
    """End a session of ours over another one; False where it was not at work."""
    return bool(await fresh.fetchval(INTERRUPT, late.get_server_pid()))


SCAN = "SET LOCAL enable_seqscan = on"
"""For what really asks for whole tables."""


class PostgresqlVisitStore(SqlVisitStore[Connection]):
    """Store of visits in PostgreSQL 14 or newer; see `backends.visits.base.VisitStore` for what its methods promise."""

    _connection: PostgresqlVisitConnection
    _tables: VisitTables

    def __init__(self, connection: PostgresqlVisitConnection, visits: VisitsConfig, tables: VisitTables) -> None:
        super().__init__(visits, tables)
        self._connection = connection
        connection.renewed = tables.forget
        schema = visits.schema_name
        self._schema = quoted(schema)
        self._done, self._marks = quoted(schema, VISITS), quoted(schema, STEPS)

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

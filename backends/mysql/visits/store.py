"""A store of visits in MariaDB or MySQL."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from time import perf_counter
from typing import Any

import numpy as np
from pymysql.err import IntegrityError, MySQLError

from backends.base import ReadOnly, StoreError, StoreUnavailable
from backends.mysql.protocol.sql import literal, quoted
from backends.mysql.schema.create import NEEDED, check_rights
from backends.mysql.server.address import address_of
from backends.mysql.server.driver import release, take
from backends.mysql.server.errors import login_refused, number_of, taken_too_long, translated
from backends.mysql.visits.compaction import Compaction, Periods
from backends.mysql.visits.packs import PackTables
from backends.mysql.visits.rows import RowTables
from backends.mysql.visits.session import SESSION_DRIVER, Session, interrupt, open_session
from backends.mysql.visits.tables import create_compactions, create_tables, create_view, sizes_of
from backends.sql.connection import LockNotGranted
from backends.sql.visits import SqlVisitStore, VisitConnection
from backends.visits.base import VisitDone, VisitsLost, see_nothing_lost
from backends.visits.rows import SECONDS, STEP_TABLES
from backends.visits.store import Limits, check_settings, settings_of
from schemas.api.visits import TableSize
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import POINTING_DTYPE, Compacted, Seconds, TileWrite, VisitRecord
from schemas.visits.tables import IndexMode, Step, tables_of

DUPLICATE = 1062
NO_SUCH = (1049, 1146)
"""No such database, no such table."""
LOCK_TIMEOUT_S = 30


class MysqlVisitStore(SqlVisitStore[Session]):
    """Visits in MariaDB 10.6 or MySQL 8.0, or newer; its methods promise what `VisitStore` says.

    Durability is the server's own (innodb_flush_log_at_trx_commit): no session can ask for another.

    Tiles that are written at the same time cannot meet in a deadlock: at READ COMMITTED only rows are locked, no gaps,
    and no two tiles write the same rows. Should a server report one all the same, it is StoreUnavailable, nothing of
    the tile was committed, and it may be written again.

    Args:
        database: where, and how long connecting and a wait for a lock may take.
        visits: what decides about the tables.
        password: goes before one in the DSN.
        bulk: False sends rows as MySQL takes them even to a MariaDB, which has a faster way.
        read_only: makes a store that is only asked.
    """

    _tables: PackTables | RowTables

    def __init__(
        self,
        database: DatabaseConfig,
        visits: VisitsConfig,
        *,
        password: str | None = None,
        bulk: bool = True,
        read_only: ReadOnly | None = None,
    ) -> None:
        assert database.dsn is not None
        self._address = address_of(database.dsn, password)
        self._target = self._address.target
        self._give_up_s = read_only.give_up_s if read_only else None
        self._schema = visits.schema_name
        self._bulk = bulk
        self._partitioned = visits.index_mode is IndexMode.PARTITIONED
        self._declared = tables_of(visits.index_mode, visits.last_columns)
        super().__init__(visits, PackTables(visits) if self._partitioned else RowTables(visits))
        self._periods = Periods(self._schema, self._declared, visits.period_ns)
        self._compaction = Compaction(visits, self._periods)
        self._connection = VisitConnection(
            SESSION_DRIVER,
            schema=self._schema,
            target=self._target,
            connect=self._open_session,
            guarded=self._translated,
            limits=Limits(
                answer_s=self._give_up_s or database.command_timeout_s,
                statement_s=None if read_only else visits.statement_timeout_s,
            ),
            interrupt=interrupt,
        )
        self._connection.renewed = self._periods.forget

    async def create(self) -> None:
        """Create the database and the tables of the index mode, or check those that are there."""
        with login_refused():
            async with self._session() as session, self._alone(session):
                if await self._are_there(session):
                    if self._partitioned:
                        await session.run(create_compactions(self._schema))
                    return
                await session.run(f"CREATE DATABASE IF NOT EXISTS {quoted(self._schema)} DEFAULT CHARACTER SET utf8mb4")
                for statement in create_tables(self._schema, self._declared, self._visits.index_mode):
                    await session.run(statement)
                if self._partitioned:
                    for table in self._declared:
                        await session.run(create_view(self._schema, table))
                # Last of all: a create that was cut short finds its tables again, and goes on.
                settings = literal(settings_of(self._visits))
                await session.run(f"INSERT INTO {self._name('VisitSettings')} VALUES (1, {settings})")

    async def check(self) -> None:
        """Look at the settings that are there, and at the rights."""
        with login_refused():
            async with self._session() as session:
                await self._are_there(session)

    async def _are_there(self, session: Session) -> bool:
        """Return whether all tables are there, as the settings have them, and the login has the rights it needs."""
        of_partitions = ("CREATE VIEW", "ALTER", "DROP") if self._partitioned else ()
        await check_rights(session.connection, self._schema, (*NEEDED, "CREATE", *of_partitions))
        stored = await self._settings(session)
        if stored is not None:
            check_settings(stored, self._visits)
        return stored is not None

    async def connect(self) -> None:
        """Connect, if that is not so already."""
        with login_refused():
            async with self._session():
                pass

    async def last_visit(self) -> VisitRecord | None:
        """The last visit that is done."""
        text = (
            "SELECT visit, time_ns, ra, decl, last_object_id, last_source_id"
            f" FROM {self._name('Visits')} ORDER BY visit DESC LIMIT 1"
        )
        async with self._session() as session:
            found = await session.fetch(text)
        if not found:
            return None
        visit, time_ns, ra, decl, last_object_id, last_source_id = found[0]
        return VisitRecord(
            visit=visit,
            time_ns=time_ns,
            ra=ra,
            decl=decl,
            last_object_id=last_object_id,
            last_source_id=last_source_id,
        )

    async def first_visit_since(self, time_ns: int) -> int | None:
        """Number of the first visit that is done and was taken at `time_ns` or later."""
        text = f"SELECT visit FROM {self._name('Visits')} WHERE time_ns >= {time_ns} ORDER BY visit LIMIT 1"
        async with self._session() as session:
            found = await session.fetch(text)
        return int(found[0][0]) if found else None

    async def pointings(self, most: int) -> Array:
        """Where the newest visits looked."""
        text = f"SELECT visit, time_ns, ra, decl FROM {self._name('Visits')} ORDER BY visit DESC LIMIT {most}"
        async with self._session() as session:
            try:
                found = await session.fetch(text)
            except MySQLError as error:
                if number_of(error) not in NO_SUCH:
                    raise
                found = []
        return np.array(found, POINTING_DTYPE)

    async def begin(self, visit: int, time_ns: int) -> frozenset[tuple[int, Step]]:
        """Make the partitions of the visit's period; what an earlier try committed of the visit."""
        async with self._session() as session:
            if self._partitioned and (missing := self._periods.missing(time_ns)):
                async with self._alone(session):
                    read = await self._periods.make(session, missing)
                if read is not None:
                    raise StoreUnavailable(
                        f"{self._target}: the period of visit {visit} has no partition yet, and an open transaction"
                        f" that has read {self._schema}.{read} stands in the way; end that transaction"
                    )
            # At one moment: the end of a visit takes its marks away, and could be committed between two questions.
            found = await session.fetch(
                f"{self._select_marks(visit)} UNION ALL SELECT visit - {visit}, NULL FROM {self._name('Visits')}"
                f" WHERE visit BETWEEN {visit - 1} AND {visit}"
            )
        done = {int(number) for number, step in found if step is None}
        if 0 in done:
            raise VisitDone(visit)
        if visit and -1 not in done:
            raise VisitsLost(visit - 1)
        return _marks_of(mark for mark in found if mark[1] is not None)

    async def write(self, write: TileWrite) -> Seconds:
        """Commit the steps of a tile that are not there yet."""
        async with self._session() as session:
            try:
                return await self._write(session, write, write.steps)
            except IntegrityError as error:
                if number_of(error) != DUPLICATE:
                    raise
                # An earlier try was committed whose acknowledgement was lost.
                await session.run("ROLLBACK")
                there = _marks_of(await session.fetch(self._select_marks(write.visit)))
                missing = tuple(step for step in write.steps if (write.tile, step) not in there)
                if missing == write.steps:
                    raise
                return await self._write(session, write, missing) if missing else {}

    async def finish(self, record: VisitRecord, steps: int | None = None) -> None:
        """Mark a visit as done, and forget the marks of its steps."""
        values = (
            f"{record.visit}, {record.time_ns}, {record.ra!r}, {record.decl!r},"
            f" {record.last_object_id}, {record.last_source_id}"
        )
        statements = (
            "START TRANSACTION",
            f"REPLACE INTO {self._name('Visits')} VALUES ({values})",
            f"DELETE FROM {self._name('VisitSteps')} WHERE visit = {record.visit}",
            "COMMIT",
        )
        counts = (
            f"SELECT SUM(visit = {record.visit}), SUM(visit = {record.visit - 1}),"
            f" (SELECT COUNT(*) FROM {self._name('VisitSteps')} WHERE visit = {record.visit})"
            f" FROM {self._name('Visits')} WHERE visit BETWEEN {record.visit - 1} AND {record.visit}"
        )
        async with self._session() as session:
            ((is_done, follows, marked),) = await session.fetch(counts)
            if not is_done:
                see_nothing_lost(record.visit, not record.visit or bool(follows), marked, steps)
            await session.run(";".join(statements))

    async def expire(self, before_ns: int) -> bool:
        """Drop the partitions of periods that end before a time."""
        if not self._partitioned or not self._periods.new_end(before_ns):
            return True
        async with self._long_session() as session, self._alone(session):
            dropped = await self._periods.drop(session, before_ns)
            if dropped:
                await self._compaction.forget(session, before_ns)
        return dropped

    async def prepare(self, time_ns: int) -> bool:
        """Make the partitions of the periods that follow."""
        missing = self._periods.missing(time_ns, ahead=True) if self._partitioned else []
        if not missing:
            return True
        async with self._session() as session, self._alone(session):
            return await self._periods.make(session, missing) is None

    async def uncompacted(self, before_ns: int) -> Sequence[tuple[str, int]]:
        """Tables and periods that can be compacted."""
        if not self._partitioned:
            return ()
        async with self._long_session() as session, self._alone(session):
            return await self._compaction.uncompacted(session, before_ns)

    async def compact(self, table: str, period: int) -> Compacted | None:
        """Rewrite a table's packs of a period."""
        if not self._partitioned:
            raise StoreError("there are no packs to be compacted")
        async with self._long_session() as session:
            async with self._alone(session):
                await self._compaction.make_staging(session, table)
            compacted = await self._compaction.write_staging(session, table, period)
            async with self._alone(session):
                placed = await self._compaction.put_in_place(session, table, period, compacted.after)
        return compacted if placed else None

    async def sizes(self) -> Mapping[str, TableSize]:
        """Rows and bytes of each table; see `backends.mysql.visits.tables` for what is exact."""
        async with self._long_session() as session:
            return await sizes_of(session, self._schema, self._declared, partitioned=self._partitioned)

    async def drop(self) -> None:
        """Remove the database."""
        self._periods.forget()
        async with self._long_session() as session:
            await session.run(f"DROP DATABASE IF EXISTS {quoted(self._schema)}")

    async def _write(self, session: Session, write: TileWrite, steps: tuple[Step, ...]) -> Seconds:
        seconds: dict[str, float] = {}
        marks = ", ".join(f"({write.visit}, {write.tile}, {literal(step.value)})" for step in steps)
        begun = perf_counter()
        await session.run(f"START TRANSACTION; INSERT INTO {self._name('VisitSteps')} VALUES {marks}")
        marked = last = perf_counter()
        names = {table.name for table in self._declared}
        for step in steps:
            for name in STEP_TABLES[step]:
                if name in names:
                    await self._tables.write(session, name, write)
                    last, before = perf_counter(), last
                    seconds[SECONDS[name]] = last - before
        await session.run("COMMIT")
        return seconds | {"commit_s": perf_counter() - last + (marked - begun)}

    def _select_marks(self, visit: int) -> str:
        return f"SELECT tile, step FROM {self._name('VisitSteps')} WHERE visit = {visit}"

    async def _settings(self, session: Session) -> str | None:
        """What the tables were made with; None when they are not there, or not all."""
        try:
            found = await session.fetch(f"SELECT settings FROM {self._name('VisitSettings')}")
        except MySQLError as error:
            if number_of(error) not in NO_SUCH:
                raise
            return None
        return str(found[0][0]) if found else None

    def _name(self, table: str) -> str:
        return quoted(self._schema, table)

    @asynccontextmanager
    async def _alone(self, session: Session) -> AsyncIterator[None]:
        """No other store of visits makes or removes tables or partitions of this schema meanwhile."""
        name = f"tables of visits in {self._schema}"
        try:
            await take(session.connection, name, LOCK_TIMEOUT_S)
        except LockNotGranted:
            raise StoreUnavailable(f"another process makes tables or partitions in schema {self._schema!r}") from None
        # When something goes wrong the connection ends, and the lock goes with it.
        yield
        await release(session.connection, name)

    def _long_session(self) -> AbstractAsyncContextManager[Session]:
        return self._connection.session(None)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        given_up = taken_too_long(self._target, self._give_up_s) if self._give_up_s else nullcontext()
        with translated(self._target), given_up:
            yield

    async def _open_session(self) -> Session:
        answer_s = self._connection.limits.answer_s
        return await open_session(self._address, timeout_s=answer_s, bulk=self._bulk, give_up_s=self._give_up_s)


def _marks_of(found: Iterable[tuple[Any, ...]]) -> frozenset[tuple[int, Step]]:
    return frozenset((int(tile), Step(step)) for tile, step in found)

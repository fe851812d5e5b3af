"""A store in a SQL database: a writer for each group, and connections that answer questions."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any, Generic
from uuid import UUID

import sqlalchemy as sa

from backends.base import GroupLocked, Move, Pace, Partition, ReadOnly, SchemaMismatch, ServerView, StoreError
from backends.questions import Questions
from backends.sql.accounting import select_decimated
from backends.sql.connection import DEAD_S, C, Driver
from backends.sql.decimation import LateForReduced, Reducing, decimated_of
from backends.sql.marks import MarkStatements, mark_of
from backends.sql.moving import Moving
from backends.sql.retention import Dropping, dropped_of, select_dropped
from backends.sql.tables import GroupTables, shared_tables
from backends.sql.writing import GroupWriter
from schemas.batch import Batch, JournalPosition, Stream
from schemas.config import DatabaseConfig
from schemas.decimation import Decimated, How
from schemas.marks import Mark, MarksWithin
from schemas.queries import Figures, Query, Totals
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Dropped, Period, Rule

READERS = 4
"""Connections that answer questions at the same time."""

TAKE_OVER_S = DEAD_S + 5.0
"""A start waits so long for a group's lock: the network may have lost the session of the daemon before."""

DROPPED_WITHIN_S = 3600.0
"""To count what is dropped all of it is read once."""
MOVED_WITHIN_S = REDUCED_WITHIN_S = 30 * 86_400.0
"""These last as long as their pace wants."""


log = logging.getLogger(__name__)


class SqlStore(ABC, Generic[C]):
    """What the SQL stores have in common; see `backends.base.Store` for what its methods promise.

    Args:
        driver: of the database.
        writer, questions: make what writes a group, and what answers about one over a connection.
        marks: makes the statements about marks.
        view, partitions_of: ask for the server's view of itself, and for the partitions of a group.
        dropping, moving, reducing: make what drops, what moves, and what reduces, periods of a group over a connection.
        reduced, figures: ask for figures of what was reduced, as they are stored, and in steps.
        database: names the schema, and how long a call may take.
        logger: whose readings are written.
        tables: of each group, by its name.
        target: what messages call the server.
        read_only: makes a store that is only asked.
    """

    def __init__(
        self,
        driver: Driver[C],
        *,
        writer: Callable[..., GroupWriter[C]],
        questions: Callable[[C, GroupTables], Questions],
        marks: MarkStatements,
        view: Callable[[C], Awaitable[ServerView]],
        partitions_of: Callable[[C, GroupTables], Awaitable[tuple[Partition, ...]]],
        dropping: Callable[..., Dropping[C]],
        reducing: Callable[..., Reducing[C]],
        reduced: Callable[[C, GroupTables, int, int], Awaitable[Array]],
        figures: Callable[[C, GroupTables, Figures], Awaitable[Array]],
        moving: Callable[..., Moving[C, Any]],
        database: DatabaseConfig,
        logger: str,
        tables: Mapping[str, GroupTables],
        target: str,
        read_only: ReadOnly | None,
    ) -> None:
        self._driver = driver
        self._questions = questions
        self._marks = marks
        self._view = view
        self._partitions_of = partitions_of
        self._dropping = dropping
        self._reducing = reducing
        self._reduced = reduced
        self._figures = figures
        self._late = LateForReduced()
        self._moving = moving
        self._database = database
        self._logger = logger
        self._target = target
        self._tables = tables
        self._read_only = read_only
        self._writers = {
            name: writer(each, database, logger=logger, target=target, connect=self._connect)
            for name, each in tables.items()
        }
        self._give_up_s = read_only.give_up_s if read_only else database.command_timeout_s
        self._turns = asyncio.Semaphore(read_only.connections if read_only else READERS)
        self._idle: list[C] = []

    async def open(self) -> None:
        """Create the schema or check it, and take the lock of every group."""
        try:
            with self._driver.login_refused():
                async with self._reader() as connection:
                    await self._create_or_check(connection)
                until_s = time.monotonic() + TAKE_OVER_S
                for writer in self._writers.values():
                    await _open(writer, until_s)
        except GroupLocked as error:
            await self.close()
            raise SchemaMismatch(str(error)) from None
        except StoreError:
            await self.close()
            raise

    async def commit(self, batch: Batch) -> None:
        """Commit a batch in one transaction: position, readings, ledger."""
        with self._late.committed(batch, self._tables[batch.group.name].layout):
            await self._writers[batch.group.name].commit(batch)

    async def rehearse(self, batch: Batch) -> None:
        """Do all of a commit but its end."""
        await self._writers[batch.group.name].rehearse(batch)

    async def position(self, group: str, stream: Stream = Stream.JOURNAL) -> JournalPosition | None:
        """Up to where the database holds the group."""
        return await self._writers[group].position(stream)

    async def states(self) -> Mapping[str, bytes]:
        """What is beside this logger's position in each group."""
        positions = shared_tables(self._database.schema_name).positions.c
        select = sa.select(positions.group_name, positions.state).where(positions.logger == self._logger)
        async with self._reader() as connection:
            return {str(name): bytes(state) for name, state in await self._rows(connection, select)}

    async def ask(self, query: Query) -> Array:
        """Answer a question; readings never become Python objects one by one."""
        within_s = query.within_s if isinstance(query, Totals) else None
        async with self._reader(within_s) as connection:
            return await self._questions(connection, self._tables[query.group.name]).answer(query)

    async def keep_mark(self, mark: Mark) -> bool:
        """Keep a mark, unless its id is there."""
        async with self._reader() as connection:
            await self._run(connection, self._marks.keep(mark))
            found = await self._rows(connection, self._marks.of_id(mark.id))
        return [(mark_of(row), withdrawn_ns) for *row, withdrawn_ns in found] == [(mark, None)]

    async def withdraw_mark(self, mark: UUID, at_ns: int) -> bool:
        """Withdraw a mark."""
        async with self._reader() as connection:
            await self._run(connection, self._marks.withdraw(mark, at_ns))
            return bool(await self._rows(connection, self._marks.of_id(mark)))

    async def marks(self, query: MarksWithin) -> list[Mark]:
        """The marks of a span of time."""
        async with self._reader() as connection:
            found = await self._rows(connection, self._marks.within(query))
        return [mark_of(row) for row in reversed(found)]

    async def view(self) -> ServerView:
        """What the server counts of its own work, and what its sessions wait for now."""
        async with self._reader() as connection:
            return await self._view(connection)

    async def partitions(self) -> Mapping[str, tuple[Partition, ...]]:
        """The partitions of every group, in order of time; `rows` is the server's estimate."""
        async with self._reader() as connection:
            return {name: await self._partitions_of(connection, tables) for name, tables in self._tables.items()}

    async def drop(self, period: Period, rule: Rule, *, at_ns: int, patience_s: float) -> Dropped:
        """Set the period's partition apart, count it, and remove it."""
        async with self._reader(DROPPED_WITHIN_S) as connection:
            dropping = self._dropping(connection, self._tables[period.group], patience_s=patience_s)
            return await dropping.drop(period, rule, at_ns)

    async def dropped(self) -> Mapping[str, tuple[Dropped, ...]]:
        """The account of all that was dropped."""
        async with self._reader() as connection:
            every = dropped_of(await self._rows(connection, select_dropped(self._database.schema_name)))
        return {name: tuple(each for each in every if each.period.group == name) for name in self._tables}

    async def decimate(
        self, period: Period, how: How, *, window_ns: int, at_ns: int, pace: Pace, patience_s: float
    ) -> Decimated:
        """Take rows of the period out in steps, put in what they are reduced to, and give their room back."""
        with self._late.taken(period):
            async with self._reader(REDUCED_WITHIN_S) as connection:
                reducing = self._reducing(connection, self._tables[period.group], patience_s=patience_s)
                return await reducing.reduce(period, how, window_ns=window_ns, at_ns=at_ns, pace=pace)

    async def decimated(self) -> Mapping[str, tuple[Decimated, ...]]:
        """The account of all that was reduced."""
        async with self._reader() as connection:
            every = decimated_of(await self._rows(connection, select_decimated(self._database.schema_name)))
        self._late.know(every)
        return {name: tuple(each for each in every if each.period.group == name) for name in self._tables}

    async def reduced(self, group: InstrumentGroup, start_ns: int, end_ns: int) -> Array:
        """Figures of buckets; none where the group has no table of them."""
        async with self._reader() as connection:
            return await self._reduced(connection, self._tables[group.name], start_ns, end_ns)

    async def figures(self, query: Figures) -> Array:
        """Figures of what was reduced, in steps."""
        async with self._reader() as connection:
            return await self._figures(connection, self._tables[query.group.name], query)

    def late(self, group: str) -> Collection[str]:
        """Periods that were reduced and got readings since."""
        return self._late.of(group)

    async def move(self, period: Period, place: str | None, *, pace: Pace, patience_s: float) -> None:
        """Copy the period's readings to another place, and exchange them for the copy."""
        async with self._reader(MOVED_WITHIN_S) as connection:
            await self._moving(connection, self._tables[period.group], patience_s=patience_s).move(period, place, pace)

    async def moves(self) -> tuple[Move, ...]:
        """The moves whose tables are there."""
        async with self._reader() as connection:
            every = [await self._moving(connection, of, patience_s=0).under_way() for of in self._tables.values()]
        return tuple(move for moves in every for move in moves)

    async def give_up_move(self, move: Move, *, patience_s: float) -> None:
        """Drop the tables of a move."""
        async with self._reader() as connection:
            await self._moving(connection, self._tables[move.group], patience_s=patience_s).give_up(move.name)

    async def close(self) -> None:
        """Give the connections back."""
        for writer in self._writers.values():
            await writer.close()
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.terminate()

    @abstractmethod
    async def _connect(self) -> C:
        """Make a connection."""

    @abstractmethod
    async def _create_or_check(self, connection: C) -> None:
        """Create the schema, or check the one that is there."""

    @abstractmethod
    async def _rows(self, connection: C, select: sa.SelectBase) -> Sequence[Sequence[Any]]:
        """The few rows that a select finds."""

    @abstractmethod
    async def _run(self, connection: C, statement: str) -> None:
        """Run what writes, in one transaction of its own."""

    def _abandoned(self, connection: C) -> None:
        """Note that nobody waits any more for what is under way over a connection."""

    @asynccontextmanager
    async def _reader(self, within_s: float | None = None) -> AsyncIterator[C]:
        async with self._turns:
            connection: C | None = None
            try:
                with self._driver.translated(self._target), self._given_up():
                    async with asyncio.timeout(within_s or self._give_up_s):
                        connection = self._take_idle() or await self._connect()
                        yield connection
                self._idle.append(connection)
            except BaseException as error:
                if connection is not None:
                    connection.terminate()
                    if isinstance(error, asyncio.CancelledError):
                        self._abandoned(connection)
                raise

    def _given_up(self) -> AbstractContextManager[None]:
        return self._driver.taken_too_long(self._target, self._give_up_s) if self._read_only else nullcontext()

    def _take_idle(self) -> C | None:
        while self._idle:
            connection = self._idle.pop()
            if not self._driver.is_closed(connection):
                return connection
            connection.terminate()
        return None


async def _open(writer: GroupWriter[C], until_s: float) -> None:
    """Open a writer, as soon as its lock is free.

    Raises:
        GroupLocked: it is not, until then.
    """
    while True:
        try:
            return await writer.open()
        except GroupLocked as error:
            if time.monotonic() >= until_s:
                raise
            log.warning("waiting for the lock of a group: %s", error)

"""A store in MongoDB, or in what speaks its protocol."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from uuid import UUID

import pymongo
from pymongo import ReadPreference

from backends.base import GroupLocked, Pace, Partition, ReadOnly, SchemaMismatch, ServerView, StoreError, StoreFacts
from backends.decimation.late import LateForReduced
from backends.mongodb.accounts import account_of
from backends.mongodb.decimation import MongodbReducing
from backends.mongodb.marks import MarkDocuments
from backends.mongodb.protocol.documents import NotOurDocuments
from backends.mongodb.reading.activity import ask_view
from backends.mongodb.reading.counting import told
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.reading.periods import Periods
from backends.mongodb.reading.queries import MongodbQuestions
from backends.mongodb.reading.reduced import reduced
from backends.mongodb.retention import MongodbDropping
from backends.mongodb.schema.create import GroupCollections, check_width, create_or_check, missing_from
from backends.mongodb.server.client import Client, make_client, target_of
from backends.mongodb.server.errors import login_refused, taken_too_long, translated
from backends.mongodb.server.facts import Database, Server, ask_server, check_server, held, meet_server
from backends.mongodb.server.lease import position_in
from backends.mongodb.writing.writer import MongodbGroupWriter
from schemas.batch import Batch, Durability, JournalPosition, Layout, Stream
from schemas.config import DatabaseConfig
from schemas.decimation import Decimated, How
from schemas.marks import Mark, MarksWithin
from schemas.queries import Figures, Query, Totals
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Dropped, Period, Rule

log = logging.getLogger(__name__)

READERS = 4
"""Questions that are under way at the same time in a store that also writes."""

DROPPED_WITHIN_S = 3600.0
"""All that is dropped is read twice."""
REDUCED_WITHIN_S = 30 * 86_400.0
"""It lasts as long as its pace wants."""


class MongodbStore:
    """Store in MongoDB 5.0 or newer, or FerretDB 1.24; see `backends.base.Store` for what its methods promise.

    All or none of a batch holds for what the questions that go through the ledger see: the readings go first, the
    ledger after them, and the position last. A batch that was rejected may leave readings of it behind.

    Args:
        read_only: makes a store that is only asked.
    """

    def __init__(
        self,
        database: DatabaseConfig,
        *,
        logger: str,
        groups: Mapping[str, InstrumentGroup],
        layouts: Mapping[str, Layout],
        password: str | None = None,
        read_only: ReadOnly | None = None,
    ) -> None:
        assert database.dsn is not None
        self._dsn = database.dsn
        self._schema = database.schema_name
        self._timeout_s = database.command_timeout_s
        self._logger = logger
        self._read_only = read_only
        self._turns = asyncio.Semaphore(read_only.connections if read_only else READERS)
        self._password = password
        self._target = target_of(database.dsn)
        self._collections = {
            name: GroupCollections(group=group, layout=layouts[name]) for name, group in groups.items()
        }
        self._periods = {name: Periods(database.partition) for name in groups}
        self._late = LateForReduced()
        self._client: Client | None = None
        self._server: Server | None = None
        self._writers = {
            name: MongodbGroupWriter(
                collections=collections,
                logger=logger,
                schema=self._schema,
                target=self._target,
                connect=self._connect,
                timeout_s=self._timeout_s,
            )
            for name, collections in self._collections.items()
        }

    async def open(self) -> None:
        """Create the collections or check them, and take the lease of every group."""
        try:
            with login_refused(), translated(self._target):
                database, server = await self._connect()
                with pymongo.timeout(self._timeout_s):
                    groups = tuple(self._collections.values())
                    await create_or_check(database, self._logger, groups, self._target, server)
                for writer in self._writers.values():
                    await writer.open()
        except GroupLocked as error:
            await self.close()
            raise SchemaMismatch(str(error)) from None
        except StoreError:
            await self.close()
            raise
        if not server.has_views:
            views = ", ".join(collections.view for collections in self._collections.values())
            log.info("%s %s has no views: %s not made", server.product, server.version, views)

    async def check(self) -> list[str]:
        """Look at the server, the rights and the collections without changing anything."""
        is_open = self._client is not None
        try:
            with login_refused(), translated(self._target):
                database, _ = await self._connect()
                with pymongo.timeout(self._timeout_s):
                    groups = tuple(self._collections.values())
                    missing = await missing_from(database, self._logger, groups, self._target)
        finally:
            if not is_open:
                await self.close()
        return missing.words(self._schema)

    async def commit(self, batch: Batch) -> None:
        """Commit a batch: readings, ledger, position, in this order."""
        with self._late.committed(batch, self._collections[batch.group.name].layout):
            await self._writers[batch.group.name].commit(batch)

    async def rehearse(self, batch: Batch) -> None:
        """Do all of a commit but its end."""
        await self._writers[batch.group.name].rehearse(batch)

    async def position(self, group: str, stream: Stream = Stream.JOURNAL) -> JournalPosition | None:
        """Up to where the database holds the group."""
        return await self._writers[group].position(stream)

    async def states(self) -> Mapping[str, bytes]:
        """What is beside this logger's position in each group."""
        async with self._reader() as (database, _):
            found = await database.get_collection("positions").find({"logger": self._logger}).to_list()
        return {str(each["_id"]): position_in(each).state for each in found}

    async def ask(self, query: Query) -> Array:
        """Answer a question."""
        within_s = query.within_s if isinstance(query, Totals) else None
        async with self._reader(within_s) as (database, server):
            return await MongodbQuestions(self._group(database, server, query.group.name)).answer(query)

    async def keep_mark(self, mark: Mark) -> bool:
        """Keep a mark, unless its id is there."""
        async with self._mark_documents() as marks:
            return await marks.keep(mark)

    async def withdraw_mark(self, mark: UUID, at_ns: int) -> bool:
        """Withdraw a mark."""
        async with self._mark_documents() as marks:
            return await marks.withdraw(mark, at_ns)

    async def marks(self, query: MarksWithin) -> list[Mark]:
        """The marks of a span of time."""
        async with self._mark_documents() as marks:
            return await marks.within(query)

    async def facts(self) -> StoreFacts:
        """Ask the server what it is and what it really does about durability."""
        rows: dict[str, int] = {}
        size: dict[str, int] = {}
        async with self._reader() as (database, _):
            server = await ask_server(database)
            for name, of in self._collections.items():
                found = [await database.command("collStats", each) for each in of.all]
                rows[name] = int(found[0]["count"])
                size[name] = sum(int(each["totalSize"]) for each in found)
        return StoreFacts(
            backend=server.product,
            version=server.version,
            durability=held(server),
            settings=server.settings,
            target=self._target,
            rows=rows,
            size_bytes=size,
        )

    async def view(self) -> ServerView:
        """What the server counts of its own work; FerretDB 1 counts nothing of it."""
        async with self._reader() as (database, _):
            return await ask_view(database)

    async def partitions(self) -> Mapping[str, tuple[Partition, ...]]:
        """The stretches of time that there are triggers of, as SQL databases have partitions; `rows` is an estimate."""
        async with self._reader() as (database, server):
            return {
                name: await periods.partitions(self._group(database, server, name))
                for name, periods in self._periods.items()
            }

    async def drop(self, period: Period, rule: Rule, *, at_ns: int, patience_s: float) -> Dropped:
        """Count what is there of a period, and remove it; nobody waits behind it."""
        # Within a time of its own, not the driver's, which would look for a server that is gone for as long.
        with translated(self._target):
            async with asyncio.timeout(DROPPED_WITHIN_S), self._turns:
                database, server = await self._connect()
                return await self._dropping(database, server, period.group).drop(period, rule, at_ns)

    def _dropping(self, database: Database, server: Server, group: str) -> MongodbDropping:
        reader, concern = self._group(database, server, group), server.write_concern(Durability.SYNC, self._timeout_s)
        return MongodbDropping(reader, self._writers[group], concern=concern, target=self._target)

    async def dropped(self) -> Mapping[str, tuple[Dropped, ...]]:
        """The account of all that was dropped."""
        async with self._reader() as (database, _):
            return {name: (await account_of(database, name, of.layout)).all() for name, of in self._collections.items()}

    async def decimate(
        self, period: Period, how: How, *, window_ns: int, at_ns: int, pace: Pace, patience_s: float
    ) -> Decimated:
        """Reduce documents of the period in steps; nobody waits behind it."""
        with self._late.taken(period), translated(self._target):
            async with asyncio.timeout(REDUCED_WITHIN_S), self._turns:
                database, server = await self._connect()
                reducing = self._reducing(database, server, period.group)
                return await reducing.reduce(period, how, window_ns=window_ns, at_ns=at_ns, pace=pace)

    def _reducing(self, database: Database, server: Server, group: str) -> MongodbReducing:
        reader, concern = self._group(database, server, group), server.write_concern(Durability.SYNC, self._timeout_s)
        marks = MarkDocuments(database, self._logger, concern=concern, target=self._target)
        return MongodbReducing(reader, self._writers[group], marks, concern=concern, target=self._target)

    async def decimated(self) -> Mapping[str, tuple[Decimated, ...]]:
        """The account of all that was reduced."""
        found = {}
        async with self._reader() as (database, server):
            for name, of in self._collections.items():
                account = await account_of(database, name, of.layout)
                found[name] = await told(self._group(database, server, name), account)
        self._late.know(each for of in found.values() for each in of)
        return found

    async def reduced(self, group: InstrumentGroup, start_ns: int, end_ns: int) -> Array:
        """Figures of buckets."""
        async with self._reader() as (database, server):
            return await reduced(self._group(database, server, group.name), start_ns, end_ns)

    async def figures(self, query: Figures) -> Array:
        """Figures of what was reduced, in steps."""
        async with self._reader() as (database, server):
            return await MongodbQuestions(self._group(database, server, query.group.name)).figures(query)

    def late(self, group: str) -> Collection[str]:
        """Periods that were reduced and got readings since."""
        return self._late.of(group)

    async def close(self) -> None:
        """Give the leases and the connections back."""
        try:
            for writer in self._writers.values():
                await writer.close()
        finally:
            client, self._client, self._server = self._client, None, None
            if client is not None:
                await client.close()

    @asynccontextmanager
    async def _reader(self, within_s: float | None = None) -> AsyncIterator[tuple[Database, Server]]:
        give_up_s = self._read_only.give_up_s if self._read_only else self._timeout_s
        try:
            with translated(self._target):
                async with self._turns:
                    database, server = await self._connect()
                    # The server is told with each command how much of it is left.
                    with self._given_up(), pymongo.timeout(within_s or give_up_s):
                        yield database, server
        except NotOurDocuments as error:
            raise StoreError(
                f"documents in database {self._schema!r} of {self._target} are not as this store writes them: {error}"
            ) from error

    @asynccontextmanager
    async def _mark_documents(self) -> AsyncIterator[MarkDocuments]:
        async with self._reader() as (database, server):
            concern = server.write_concern(Durability.SYNC, self._timeout_s)
            yield MarkDocuments(database, self._logger, concern=concern, target=self._target)

    def _group(self, database: Database, server: Server, name: str) -> GroupReader:
        return GroupReader(database=database, server=server, of=self._collections[name], logger=self._logger)

    def _given_up(self) -> AbstractContextManager[None]:
        return taken_too_long(self._target, self._read_only.give_up_s) if self._read_only else nullcontext()

    async def _connect(self) -> tuple[Database, Server]:
        if self._client is None:
            self._client = make_client(
                self._dsn,
                password=self._password,
                program=f"triggerlog {self._logger}{' reader' if self._read_only else ''}",
                timeout_s=self._timeout_s,
                connections=self._read_only.connections if self._read_only else None,
            )
        # Positions, leases and the ledger are read where they are written; who only asks, where the DSN says.
        where = None if self._read_only else ReadPreference.PRIMARY
        database = self._client.get_database(self._schema, read_preference=where)
        if self._server is None:
            with translated(self._target):
                server = await meet_server(database, self._timeout_s)
            check_server(server, self._target, writes=self._read_only is None)
            for collections in self._collections.values():
                check_width(collections)
            self._server = server
        return database, self._server

"""A store in MongoDB, or in what speaks its protocol.

A mark is a document, by its id. None is ever removed: a mark that is withdrawn stays, with the time of that, so that a
request that made it and comes again does not bring it back.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any
from uuid import UUID

import pymongo
from bson import Int64
from pymongo import ReadPreference

from backends.base import GroupLocked, Partition, ReadOnly, SchemaMismatch, ServerView, StoreError, StoreFacts
from backends.diagnosis import stored_mark
from backends.mongodb.protocol.documents import NotOurDocuments
from backends.mongodb.reading.activity import Periods, ask_view
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.reading.queries import MongodbQuestions
from backends.mongodb.retention import MongodbDropping, accounts_of
from backends.mongodb.schema import GroupCollections, SchemaMaker, check_name, missing_from
from backends.mongodb.server.client import Client, make_client, target_of
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer, login_refused, taken_too_long, translated
from backends.mongodb.server.facts import Database, Server, ask_server, check_server, held, meet_server
from backends.mongodb.server.positions import Heartbeat, new_owner, newest_position, position_in
from backends.mongodb.writing import RELEASE_S, MongodbGroupWriter
from schemas.batch import Batch, Durability, JournalPosition, Layout, Stream
from schemas.config import DatabaseConfig
from schemas.marks import Mark, MarksWithin
from schemas.queries import Query, Totals
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Dropped, Period, Rule


class MarkDocuments:
    """The marks of one logger in the collection `marks`."""

    def __init__(self, database: Database, logger: str, *, concern: dict[str, Any], target: str) -> None:
        self._database = database
        self._marks = database.get_collection("marks")
        self._logger = logger
        self._concern = concern
        self._target = target

    async def keep(self, mark: Mark) -> bool:
        """Insert a mark, unless its id is there; whether it is there as given."""
        await self._write("insert", documents=[self._document(mark)])
        found = await self._marks.find_one(self._of(mark.id))
        return found is not None and _mark(found) == mark and found.get("withdrawn_ns") is None

    async def withdraw(self, mark: UUID, at_ns: int) -> bool:
        """Note when a mark was withdrawn, unless it was before; whether there is one of this id."""
        change = {"q": {**self._of(mark), "withdrawn_ns": None}, "u": {"$set": {"withdrawn_ns": Int64(at_ns)}}}
        await self._write("update", updates=[change])
        return await self._marks.find_one(self._of(mark)) is not None

    async def within(self, query: MarksWithin) -> list[Mark]:
        """The marks of a span of time, in order of time."""
        lasts = [{"until_ns": {"$gte": query.start_ns}}, {"until_ns": None, "time_ns": {"$gte": query.start_ns}}]
        wanted = {"logger": self._logger, "withdrawn_ns": None, "time_ns": {"$lt": query.end_ns}, "$or": lasts}
        newest = self._marks.find(wanted).sort([("time_ns", -1), ("_id", -1)]).limit(query.most)
        return [_mark(found) for found in reversed(await newest.to_list())]

    async def _write(self, command: str, **what: Any) -> None:
        answer = await self._database.command(command, "marks", writeConcern=self._concern, **what)
        check_answer(answer, self._target, but=DUPLICATE_KEY)

    def _of(self, mark: UUID) -> dict[str, Any]:
        return {"_id": str(mark), "logger": self._logger}

    def _document(self, mark: Mark) -> dict[str, Any]:
        return {
            **self._of(mark.id),
            "time_ns": Int64(mark.time_ns),
            "until_ns": None if mark.until_ns is None else Int64(mark.until_ns),
            "text": mark.text,
            "author": mark.author,
            "group": mark.group,
            "withdrawn_ns": None,
        }


def _mark(found: Mapping[str, Any]) -> Mark:
    fields = {name: found.get(name) for name in ("time_ns", "until_ns", "text", "author", "group")}
    return stored_mark("collection 'marks'", {"id": str(found["_id"]), **fields})


log = logging.getLogger(__name__)

READERS = 4
"""Questions that are under way at the same time in a store that also writes."""

DROPPED_WITHIN_S = 3600.0
"""All that is dropped is read and written."""


class MongodbStore:
    """Store in MongoDB 5.0 or newer, or FerretDB 1.24; see `backends.base.Store` for what its methods promise.

    A trigger is one document, which is there as a whole or not at all; a batch is committed with its position, which is
    inserted last. A batch that was given up, or that the server refused for one of its documents, may leave others of
    its triggers behind: whoever sends them again finds them.

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
        self._client: Client | None = None
        self._server: Server | None = None
        self._maker = SchemaMaker(logger, tuple(self._collections.values()), self._target)
        self._heartbeat = Heartbeat(new_owner(), self._target, self._timeout_s)
        self._writers = {
            name: MongodbGroupWriter(
                collections,
                logger=logger,
                schema=self._schema,
                target=self._target,
                connect=self._connect,
                heartbeat=self._heartbeat,
                timeout_s=self._timeout_s,
            )
            for name, collections in self._collections.items()
        }

    async def open(self) -> None:
        """Create the collections or check them, and become the owner of every group."""
        try:
            with login_refused(), translated(self._target):
                database, server = await self._connect()
                concern = server.write_concern(Durability.SYNC, self._timeout_s)
                await self._maker.create(database, server, concern, self._timeout_s)
                for writer in self._writers.values():
                    await writer.open()
        except GroupLocked as error:
            await self.close()
            raise SchemaMismatch(str(error)) from None
        except StoreError:
            await self.close()
            raise

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
        """Commit a batch: its triggers, and then the position."""
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
            groups = await database.get_collection("groups").find({"logger": self._logger}, {"_id": 1}).to_list()
            found = {str(each["_id"]): await newest_position(database, str(each["_id"])) for each in groups}
        return {name: position_in(position).state for name, position in found.items() if position}

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
                found = await database.command("collStats", of.data)
                of_document = 1 if of.layout is Layout.ARRAYS else of.group.size
                rows[name], size[name] = of_document * int(found["count"]), int(found["totalSize"])
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
                name: await periods.partitions(self._group(database, server, name), await accounts_of(database, name))
                for name, periods in self._periods.items()
            }

    async def drop(self, period: Period, rule: Rule, *, at_ns: int, patience_s: float) -> Dropped:
        """Count what is there of a period, and remove it; nobody waits behind it."""
        # Within a time of its own, not the driver's, which would look for a server that is gone for as long.
        with translated(self._target):
            async with asyncio.timeout(DROPPED_WITHIN_S), self._turns:
                database, server = await self._connect()
                concern = server.write_concern(Durability.SYNC, self._timeout_s)
                dropping = MongodbDropping(
                    self._group(database, server, period.group), concern=concern, target=self._target
                )
                return await dropping.drop(period, rule, at_ns)

    async def dropped(self) -> Mapping[str, tuple[Dropped, ...]]:
        """The account of all that was dropped."""
        async with self._reader() as (database, _):
            return {name: await accounts_of(database, name) for name in self._collections}

    async def close(self) -> None:
        """Release the groups, and give the connections back."""
        try:
            for writer in self._writers.values():
                await writer.close()
            await self._maker.close()
            await self._end_heartbeat()
        finally:
            client, self._client, self._server = self._client, None, None
            if client is not None:
                await client.close()

    async def _end_heartbeat(self) -> None:
        if self._client is not None:
            try:
                with translated(self._target), pymongo.timeout(min(self._timeout_s, RELEASE_S)):
                    await self._heartbeat.stop(self._client.get_database(self._schema))
            except StoreError as error:
                log.debug("the count of an owner stays behind: %s", error)

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
        return GroupReader(database=database, server=server, of=self._collections[name])

    def _given_up(self) -> AbstractContextManager[None]:
        return taken_too_long(self._target, self._read_only.give_up_s) if self._read_only else nullcontext()

    async def _connect(self) -> tuple[Database, Server]:
        check_name(self._schema)
        if self._client is None:
            self._client = make_client(
                self._dsn,
                password=self._password,
                program=f"triggerlog {self._logger}{' reader' if self._read_only else ''}",
                timeout_s=self._timeout_s,
                connections=self._read_only.connections if self._read_only else None,
            )
        # Positions and the ledger are read where they are written; who only asks, where the DSN says.
        where = None if self._read_only else ReadPreference.PRIMARY
        database = self._client.get_database(self._schema, read_preference=where)
        if self._server is None:
            with translated(self._target):
                server = await meet_server(database, self._timeout_s)
            check_server(server, self._target, writes=self._read_only is None)
            self._server = server
        return database, self._server

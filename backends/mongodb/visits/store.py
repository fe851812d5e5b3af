"""A store of mock DIA visits in MongoDB, or in what speaks its protocol."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace

import numpy as np
import pymongo
from bson import Int64
from pymongo import ASCENDING, DESCENDING, ReadPreference

from backends.base import ReadOnly, SchemaMismatch, StoreError, StoreUnavailable
from backends.mongodb.protocol.documents import NotOurDocuments
from backends.mongodb.schema import check_name, check_rights
from backends.mongodb.server.client import Client, make_client, target_of
from backends.mongodb.server.errors import login_refused, taken_too_long, translated
from backends.mongodb.server.facts import check_server, meet_server
from backends.mongodb.visits.packs import PackTables
from backends.mongodb.visits.rows import RowTables
from backends.mongodb.visits.session import Document, Session
from backends.visits.base import StatementTooLong, VisitDone, VisitsLost, see_nothing_lost
from backends.visits.store import Limits, SessionVisitStore, check_settings, settings_of, watched
from schemas.api.visits import TableSize
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import POINTING_DTYPE, Compacted, Seconds, TileWrite, VisitRecord
from schemas.visits.tables import IndexMode, Step

VISITS, STEPS, SETTINGS = "Visits", "VisitSteps", "VisitSettings"
POINTING: Document = {"time_ns": 1, "ra": 1, "decl": 1}


class MongodbVisitStore(SessionVisitStore[Session]):
    """Visits in MongoDB 5.0 or newer, or FerretDB 1.24; its methods promise what `VisitStore` says.

    There are no transactions: every document has an `_id` that follows from what it is, one that is there already is
    left, and the mark of a step comes last. Until it is there, `objects` may have versions of the visit under way.

    read_only: makes a store that is only asked.
    """

    _tables: PackTables | RowTables

    def __init__(
        self,
        database: DatabaseConfig,
        visits: VisitsConfig,
        *,
        password: str | None = None,
        read_only: ReadOnly | None = None,
    ) -> None:
        assert database.dsn is not None
        super().__init__(
            visits, PackTables(visits) if visits.index_mode is IndexMode.PARTITIONED else RowTables(visits)
        )
        self._dsn = database.dsn
        self._password = password
        self._read_only = read_only
        self._limits = Limits(
            answer_s=read_only.give_up_s if read_only else database.command_timeout_s,
            statement_s=None if read_only else visits.statement_timeout_s,
        )
        # Of a command, also at the server, who goes on with nothing for longer. Who looks after it is first.
        self._timeout_s = self._limits.session_s + (0.0 if read_only else self._limits.answer_s)
        self._target = target_of(database.dsn)
        self._client: Client | None = None
        self._opened: Session | None = None

    async def create(self) -> None:
        """Create the collections or check them; the settings go first, so that what a crash leaves is known as ours."""
        with login_refused():
            async with self._session() as session:
                await self._see_usable(session)
                settings = {"_id": SETTINGS, "settings": settings_of(self._visits)}
                await session.insert_objects(SETTINGS, [settings])
                stored = await session.first(SETTINGS, {"_id": SETTINGS}, [])
                check_settings(stored["settings"] if stored else "{}", self._visits)
                for name in (VISITS, STEPS):
                    await session.create(name)
                await session.index(VISITS, ("time_ns",))
                await session.index(STEPS, ("visit",))
                await self._tables.create(session)

    async def check(self) -> None:
        """Look at the rights, and at what is there."""
        with login_refused():
            async with self._session() as session:
                await self._see_usable(session)
                if SETTINGS in await session.names():
                    stored = await session.first(SETTINGS, {"_id": SETTINGS}, [])
                    check_settings(stored["settings"] if stored else "{}", self._visits)

    async def close(self) -> None:
        """Give back the connection."""
        client, self._client, self._opened = self._client, None, None
        if client is not None:
            await client.close()

    async def hold(self) -> None:
        """Nothing: what two runs write is the same, under the same ids."""

    async def release(self) -> None:
        """Give back the connection."""
        await self.close()

    async def last_visit(self) -> VisitRecord | None:
        """The last visit that is done."""
        async with self._session() as session:
            found = await session.first(VISITS, {}, [("_id", DESCENDING)])
        return _record(found) if found else None

    async def first_visit_since(self, time_ns: int) -> int | None:
        """Number of the first visit that is done and was taken at `time_ns` or later."""
        async with self._session() as session:
            found = await session.first(VISITS, {"time_ns": {"$gte": Int64(time_ns)}}, [("time_ns", ASCENDING)])
        return int(found["_id"]) if found else None

    async def pointings(self, most: int) -> Array:
        """Where the newest visits looked."""
        async with self._session() as session:
            found = await session.find(VISITS, {}, POINTING, [("_id", DESCENDING)], most)
        return np.array([(each["_id"], each["time_ns"], each["ra"], each["decl"]) for each in found], POINTING_DTYPE)

    async def begin(self, visit: int, time_ns: int) -> frozenset[tuple[int, Step]]:
        """Prepare a visit, complete what a try of it left half done, and return what that committed."""
        async with self._session() as session:
            # A crash between the end of a visit and that of its marks leaves some.
            await session.delete_many(STEPS, {"visit": {"$lt": Int64(visit)}})
            await self._tables.begin(session, visit, time_ns)
            marks = await session.find(STEPS, {"visit": Int64(visit)}, {"tile": 1, "step": 1})
            # Asked last: the end of a visit takes its marks away.
            done = await self._done_of(session, visit)
        if visit in done:
            raise VisitDone(visit)
        if visit and visit - 1 not in done:
            raise VisitsLost(visit - 1)
        return frozenset((int(mark["tile"]), Step(mark["step"])) for mark in marks)

    async def write(self, write: TileWrite) -> Seconds:
        """Write a tile's steps, and their marks last."""
        seconds: dict[str, float] = {}
        async with self._session() as session:
            for step in write.steps:
                seconds |= await self._tables.write(session, write, step)
            began_s = time.perf_counter()
            await session.insert_objects(STEPS, [_mark(write, step) for step in write.steps])
            seconds["commit_s"] = time.perf_counter() - began_s
        return seconds

    async def finish(self, record: VisitRecord, steps: int | None = None) -> None:
        """Mark a visit as done, and forget the marks of its steps."""
        async with self._session() as session:
            marks = await session.find(STEPS, {"visit": Int64(record.visit)}, {"_id": 1})
            done = await self._done_of(session, record.visit)
            if record.visit not in done:
                see_nothing_lost(record.visit, not record.visit or record.visit - 1 in done, len(marks), steps)
            await session.insert_objects(VISITS, [_document(record)])
            await session.delete_many(STEPS, {"visit": Int64(record.visit)})

    async def expire(self, before_ns: int) -> bool:
        """In `partitioned`: drop the collections of periods that end before a time."""
        async with self._session() as session:
            await self._tables.expire(session, before_ns)
        return True

    async def uncompacted(self, before_ns: int) -> Sequence[tuple[str, int]]:
        """None: packs stay as they were written."""
        return ()

    async def compact(self, table: str, period: int) -> Compacted | None:
        """Nothing is to be compacted."""
        raise StoreError("packs stay here as they were written")

    async def sizes(self) -> Mapping[str, TableSize]:
        """Rows and bytes of each table."""
        async with self._long_session() as session:
            return {name: await self._tables.size(session, name) for name in self._names}

    async def drop(self) -> None:
        """Remove the database, where it is one of visits; nothing happens when it is not there."""
        async with self._session() as session:
            await self._see_free(session)
            with pymongo.timeout(self._timeout_s):
                await session.database.client.drop_database(session.database.name)

    async def _done_of(self, session: Session, visit: int) -> set[int]:
        """A visit and the one before it, as far as they are done."""
        found = await session.find(VISITS, {"_id": {"$gte": Int64(visit - 1), "$lte": Int64(visit)}}, {"_id": 1})
        return {int(each["_id"]) for each in found}

    async def _see_usable(self, session: Session) -> None:
        """See that the login has its rights, and a database has nothing, or visits.

        Raises:
            StoreError: a right is lacking.
            SchemaMismatch: it has something else.
        """
        with pymongo.timeout(self._timeout_s):
            await check_rights(session.database, self._target)
        await self._see_free(session)

    async def _see_free(self, session: Session) -> None:
        there = await session.names()
        if there and SETTINGS not in there:
            raise SchemaMismatch(
                f"database {self._visits.schema_name!r} of {self._target} has a collection {min(there)!r} and no"
                " visits; set another `schema` in [visits]"
            )

    def _session(self) -> AbstractAsyncContextManager[Session]:
        return self._watched_session(self._limits.session_s)

    @asynccontextmanager
    async def _watched_session(self, limit_s: float | None) -> AsyncIterator[Session]:
        try:
            with translated(self._target), self._given_up():
                session = await self._connected()
                if self._read_only:
                    yield session
                else:
                    async with watched(self._limits.answer_s, limit_s, self._why_end):
                        yield session
        except NotOurDocuments as error:
            raise StoreError(
                f"documents in database {self._visits.schema_name!r} of {self._target} are not as this store writes"
                f" them: {error}"
            ) from error

    @asynccontextmanager
    async def _long_session(self) -> AsyncIterator[Session]:
        async with self._watched_session(None) as session:
            yield replace(session, timeout_s=None)

    async def _why_end(self, late_s: float | None, ending: asyncio.Event) -> StoreError | None:
        """Ask over another client. What is late ends with its connection here, and at the server by its own limit."""
        client = self._make_client()
        try:
            with translated(self._target), pymongo.timeout(self._limits.answer_s):
                await client.admin.command("ping")
        except StoreUnavailable as error:
            return error
        finally:
            await client.close()
        return None if late_s is None else StatementTooLong(late_s)

    def _given_up(self) -> AbstractContextManager[None]:
        return taken_too_long(self._target, self._read_only.give_up_s) if self._read_only else nullcontext()

    async def _connected(self) -> Session:
        check_name(self._visits.schema_name, "visits")
        if self._client is None:
            self._client = self._make_client()
        if self._opened is None:
            # Who writes reads what is written; who only asks, where the DSN says.
            where = None if self._read_only else ReadPreference.PRIMARY
            database = self._client.get_database(self._visits.schema_name, read_preference=where)
            server = await meet_server(database, self._limits.answer_s)
            check_server(server, self._target, writes=self._read_only is None)
            concern = server.write_concern(self._visits.durability, self._limits.answer_s)
            self._opened = Session(
                database=database, server=server, target=self._target, concern=concern, timeout_s=self._timeout_s
            )
        return self._opened

    def _make_client(self) -> Client:
        return make_client(
            self._dsn,
            password=self._password,
            program=f"triggerlog visits{' reader' if self._read_only else ''}",
            timeout_s=self._limits.answer_s,
        )


def _mark(write: TileWrite, step: Step) -> Document:
    return {
        "_id": f"{write.visit}/{write.tile}/{step.value}",
        "visit": Int64(write.visit),
        "tile": write.tile,
        "step": step.value,
    }


def _document(record: VisitRecord) -> Document:
    return {
        "_id": Int64(record.visit),
        "time_ns": Int64(record.time_ns),
        "ra": record.ra,
        "decl": record.decl,
        "last_object_id": Int64(record.last_object_id),
        "last_source_id": Int64(record.last_source_id),
    }


def _record(found: Document) -> VisitRecord:
    return VisitRecord(
        visit=int(found["_id"]),
        time_ns=int(found["time_ns"]),
        ra=float(found["ra"]),
        decl=float(found["decl"]),
        last_object_id=int(found["last_object_id"]),
        last_source_id=int(found["last_source_id"]),
    )

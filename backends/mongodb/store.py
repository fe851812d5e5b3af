"""A store in MongoDB, or in what speaks its protocol."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

import numpy as np
import pymongo
from pymongo import ReadPreference

from backends.base import GroupLocked, Partition, Reading, SchemaMismatch, ServerView, StoreError, StoreFacts
from backends.mongodb import reading
from backends.mongodb.client import Client, make_client, target_of
from backends.mongodb.counting import totals
from backends.mongodb.documents import NotOurDocuments
from backends.mongodb.errors import login_refused, translated
from backends.mongodb.formats import arrays_format, data_format, decode_ledger, decode_readings, ledger_format
from backends.mongodb.schema import GroupCollections, check_width, create_or_check, missing_from
from backends.mongodb.server import Database, Server, ask_server, check_server, held
from backends.mongodb.writer import GroupWriter
from backends.windows import in_order, rows_to_know, see_not_too_large
from schemas.batch import Batch, JournalPosition, Layout, Stream
from schemas.config import DatabaseConfig
from schemas.ledger import ledger_dtype
from schemas.queries import (
    InstrumentReadings,
    LedgerRow,
    LedgerTail,
    NewestTrigger,
    Query,
    Totals,
    TriggerReadings,
    WindowReadings,
    answer_dtype,
)
from schemas.readings import Array, InstrumentGroup
from schemas.selects import SLACK_NS

log = logging.getLogger(__name__)


class MongodbStore:
    """Store in MongoDB 5.0 or newer, or FerretDB 1.24; see `backends.base.Store` for what its methods promise.

    All or none of a batch holds for what the questions that go through the ledger see: the readings go first, the
    ledger after them, and the position last. A batch that was rejected may leave readings of it behind.

    Args:
        reading: makes a store that is only asked.
    """

    def __init__(
        self,
        database: DatabaseConfig,
        *,
        logger: str,
        groups: Mapping[str, InstrumentGroup],
        layouts: Mapping[str, Layout],
        password: str | None = None,
        reading: Reading | None = None,
    ) -> None:
        assert database.dsn is not None
        self._dsn = database.dsn
        self._schema = database.schema_name
        self._timeout_s = database.command_timeout_s
        self._logger = logger
        self._password = password
        self._target = target_of(database.dsn)
        self._collections = {
            name: GroupCollections(group=group, layout=layouts[name]) for name, group in groups.items()
        }
        self._client: Client | None = None
        self._server: Server | None = None
        self._writers = {
            name: GroupWriter(
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
                    is_new, absent = await missing_from(database, self._logger, groups, self._target)
        finally:
            if not is_open:
                await self.close()
        new = [f"database `{self._schema}`"] if is_new else []
        return [*new, *(f"collections of group `{collections.data}`" for collections in absent)]

    async def commit(self, batch: Batch) -> None:
        """Commit a batch: readings, ledger, position, in this order."""
        await self._writers[batch.group.name].commit(batch)

    async def rehearse(self, batch: Batch) -> None:
        """Do all of a commit but its end."""
        await self._writers[batch.group.name].rehearse(batch)

    async def position(self, group: str, stream: Stream = Stream.JOURNAL) -> JournalPosition | None:
        """Up to where the database holds the group."""
        return await self._writers[group].position(stream)

    async def ask(self, query: Query) -> Array:
        """Answer a question; documents are parsed as they come and never become Python objects one by one."""
        of = self._collections[query.group.name]
        within_s = query.within_s if isinstance(query, Totals) else None
        async with self._reader(within_s) as (database, server):
            match query:
                case NewestTrigger():
                    entry = await self._ledger(database, of, *reading.NEWEST_COMPLETE)
                    answer = await self._trigger(database, of, entry)
                case TriggerReadings():
                    entry = await self._ledger(database, of, *reading.ledger_entry(query.trigger, query.run))
                    answer = await self._trigger(database, of, entry)
                case InstrumentReadings():
                    answer = await self._instrument(database, of, query)
                case WindowReadings():
                    wanted = reading.readings_in_window(query, of.layout, server)
                    enough = rows_to_know(query, of.layout) or 0
                    readings = await self._readings(database, of, wanted, most=enough)
                    see_not_too_large(readings, query, of.layout)
                    answer = in_order(_between(readings, query.start_ns, query.end_ns))
                case LedgerRow():
                    answer = await self._ledger(database, of, *reading.ledger_entry(query.trigger, query.run))
                case LedgerTail():
                    rows = await self._ledger(database, of, {}, reading.NEWEST_FIRST, query.most)
                    # Those of the newest run come first, and no more than asked for can be there.
                    answer = rows[rows["run"] == rows["run"][:1]][::-1]
                case Totals():
                    answer = await totals(database, of)
                case _:
                    raise StoreError(f"{type(query).__name__} is not answered by this store")
        return answer

    async def _instrument(self, database: Database, of: GroupCollections, query: InstrumentReadings) -> Array:
        if query.most < 1:
            return np.empty(0, answer_dtype(of.group))
        if of.layout is Layout.ARRAYS:
            return await self._elements(database, of, query)
        filter_, sort = reading.readings_of_instrument(query)
        return (await self._readings(database, of, filter_, sort, query.most))[::-1]

    async def _ledger(
        self,
        database: Database,
        of: GroupCollections,
        filter_: reading.Filter,
        sort: reading.Sort,
        most: int = 1,
    ) -> Array:
        if most < 1:
            return np.empty(0, ledger_dtype(of.group.size))
        form = ledger_format(of.group.size, self._logger)
        found = await reading.found(database.get_collection(of.ledger), filter_, form, sort, most)
        return decode_ledger(found, of.group.size, self._logger)

    async def _trigger(self, database: Database, of: GroupCollections, entry: Array) -> Array:
        if not len(entry):
            return np.empty(0, answer_dtype(of.group))
        wanted = reading.readings_of_trigger(int(entry["run"][0]), int(entry["trigger"][0]), of.layout)
        return in_order(await self._readings(database, of, wanted))

    async def _readings(
        self,
        database: Database,
        of: GroupCollections,
        filter_: reading.Filter,
        sort: reading.Sort = (),
        most: int = 0,
    ) -> Array:
        collection = database.get_collection(of.data)
        found = await reading.found(collection, filter_, data_format(of.group, of.layout), sort, most)
        return decode_readings(found, of.group, of.layout)

    async def _elements(self, database: Database, of: GroupCollections, query: InstrumentReadings) -> Array:
        """One instrument's readings from whole documents, which come newest first until there are enough."""
        form, parts, count = arrays_format(of.group), [np.empty(0, answer_dtype(of.group))], 0
        triggers = reading.triggers_around(query.start_ns, query.end_ns)
        collection = database.get_collection(of.data)
        whole = reading.batches(collection, triggers, form, reading.LATEST_FIRST, enough=query.most)
        async with aclosing(whole) as batches:
            async for batch in batches:
                readings = decode_readings(batch, of.group, of.layout)
                mine = readings[readings["instrument"] == query.instrument]
                parts.append(_between(mine, query.start_ns, query.end_ns))
                count += len(parts[-1])
                # Those to come belong to earlier triggers, but may themselves be later by the slack.
                if count >= query.most and _is_past(parts, form.columns(form.parse(batch))["time_ns"], query.most):
                    break
        found = np.concatenate(parts)
        return found[np.argsort(found["time_ns"], kind="stable")][max(0, len(found) - query.most) :]

    async def facts(self) -> StoreFacts:
        """Ask the server what it is and what it really does about durability."""
        rows: dict[str, int] = {}
        size: dict[str, int] = {}
        async with self._reader() as (database, _):
            server = await ask_server(database)
            for name, of in self._collections.items():
                data, ledger = [await database.command("collStats", each) for each in (of.data, of.ledger)]
                rows[name] = int(data["count"])
                size[name] = int(data["totalSize"] + ledger["totalSize"])
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
        """What the server counts of its own work."""
        return ServerView()

    async def partitions(self) -> Mapping[str, tuple[Partition, ...]]:
        """The partitions of every group."""
        return dict.fromkeys(self._collections, ())

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
        try:
            with translated(self._target):
                database, server = await self._connect()
                with pymongo.timeout(within_s or self._timeout_s):
                    yield database, server
        except NotOurDocuments as error:
            raise StoreError(
                f"documents in database {self._schema!r} of {self._target} are not as this store writes them: {error}"
            ) from error

    async def _connect(self) -> tuple[Database, Server]:
        if self._client is None:
            self._client = make_client(
                self._dsn, password=self._password, logger=self._logger, timeout_s=self._timeout_s
            )
        # Positions, leases and the ledger are read where they are written.
        database = self._client.get_database(self._schema, read_preference=ReadPreference.PRIMARY)
        if self._server is None:
            with translated(self._target), pymongo.timeout(self._timeout_s):
                server = await ask_server(database)
            check_server(server, self._target)
            for collections in self._collections.values():
                check_width(collections)
            self._server = server
        return database, self._server


def _between(readings: Array, start_ns: int, end_ns: int) -> Array:
    inside = (readings["time_ns"] >= start_ns) & (readings["time_ns"] < end_ns)
    return readings if inside.all() else readings[inside]


def _is_past(parts: list[Array], triggers_ns: Array, most: int) -> bool:
    """Whether no trigger earlier than these can have one of the `most` newest readings."""
    times = np.sort(np.concatenate([part["time_ns"] for part in parts]))
    return bool(int(triggers_ns.min()) + SLACK_NS < int(times[-most]))

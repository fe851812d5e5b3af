"""The writing of one group into MongoDB, without transactions: the documents of a batch, and then its position.

Nothing is replaced or taken back. A batch of which the position was not inserted was never acknowledged; its documents
may be there, and whoever sends the same readings again finds them (`putting`).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import numpy as np
import pymongo

from backends.base import BatchRejected, CommitsLost, OtherJournal, StoreError, StoreUnavailable, is_committed
from backends.mongodb.protocol.triggers import Written, key_in, keys_of, written_by
from backends.mongodb.reading import documents
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.retention import accounts_at
from backends.mongodb.schema.create import GroupCollections
from backends.mongodb.server.errors import translated
from backends.mongodb.server.facts import Database, Server
from backends.mongodb.server.positions import Heartbeat, Positions
from backends.mongodb.writing.putting import Put
from schemas.batch import Batch, Durability, JournalPosition, Stream
from schemas.readings import Array
from schemas.retention import are_within, spans_of

log = logging.getLogger(__name__)

RELEASE_S = 2.0
"""Longest time that closing waits to release a group; its owner is found dead without that."""
NOTHING = (-(2**31), -(2**63))

Connect = Callable[[], Awaitable[tuple[Database, Server]]]


class MongodbGroupWriter:
    """Writes one group of one logger; calls are put one after the other."""

    def __init__(
        self,
        collections: GroupCollections,
        *,
        logger: str,
        schema: str,
        target: str,
        connect: Connect,
        heartbeat: Heartbeat,
        timeout_s: float,
    ) -> None:
        self._collections = collections
        self._target = target
        self._connect = connect
        self._timeout_s = timeout_s
        self._positions = Positions(
            group=collections.data,
            schema=schema,
            logger=logger,
            target=target,
            heartbeat=heartbeat,
            timeout_s=timeout_s,
        )
        self._durability = Durability.SYNC
        self._newest = self._newest_at_take = NOTHING
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Become the owner of the group."""
        async with self._session():
            pass

    async def close(self) -> None:
        """Release the group."""
        if self._positions.n:
            async with self._turn:
                try:
                    database, _ = await self._connect()
                    with translated(self._target), pymongo.timeout(min(self._timeout_s, RELEASE_S)):
                        await self._positions.release(database)
                except StoreError as error:
                    log.warning("group %r is not released: %s", self._collections.data, error)

    async def position(self, stream: Stream) -> JournalPosition | None:
        """Return up to where the database has the group."""
        async with self._session():
            found = self._positions.at(stream)
        return found if found.sequence else None

    async def commit(self, batch: Batch) -> None:
        """Commit a batch, or find that it is there."""
        self._durability = batch.durability
        async with self._session() as (database, server):
            if is_committed(self._positions.at(batch.stream), batch):
                return
            concern = server.write_concern(batch.durability, self._timeout_s)
            await self._put(database, server, batch)
            if not await self._positions.move(database, batch, concern):
                await self._positions.check_owner(database)
                raise StoreUnavailable(f"the position of group {batch.group.name!r} was changed by an earlier command")

    async def rehearse(self, batch: Batch) -> None:
        """Insert the documents of a batch without its position: committing it finds them."""
        self._durability = batch.durability
        async with self._session() as (database, server):
            if not is_committed(self._positions.at(batch.stream), batch):
                await self._put(database, server, batch)

    async def _put(self, database: Database, server: Server, batch: Batch) -> None:
        concern = server.write_concern(batch.durability, self._timeout_s)
        reader = GroupReader(database=database, server=server, of=self._collections)
        written = written_by(batch)
        await self._positions.register_runs(database, written.rows, concern)
        stored = await self._maybe_stored(database, written)
        await Put(reader, concern, self._target).put(written, stored)
        if len(written.rows):
            self._newest = max(self._newest, keys_of(np.sort(written.rows, order=("run", "trigger"))[-1:]).tolist()[0])

    async def _maybe_stored(self, database: Database, written: Written) -> Array:
        """Return the triggers (`KEY`) of which something may be there that this batch could contradict.

        A trigger above all others is not looked for: its insert says whether it is there.
        """
        own, late = keys_of(written.rows), keys_of(written.late_rows)
        old = late[_upto(late, self._newest_at_take)]
        times = written.late_rows["time_ns"]
        if len(times):
            account = await accounts_at(database, self._collections.data, int(times.min()), int(times.max()))
            dropped = late[are_within(spans_of(each.period for each in account), times)]
            old = np.concatenate([old, dropped])
        return np.unique(np.concatenate([own[_upto(own, self._newest)], old]))

    async def _take(self, database: Database, server: Server) -> None:
        """Become the owner, and look where the group ends."""
        await self._positions.take(database, server.write_concern(self._durability, self._timeout_s))
        with pymongo.timeout(self._timeout_s):
            data = database.get_collection(self._collections.data)
            found = await data.find_one({}, {"_id": 1}, sort=list(documents.NEWEST_FIRST))
        self._newest = self._newest_at_take = NOTHING if found is None else key_in(bytes(found["_id"]))

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[tuple[Database, Server]]:
        async with self._turn:
            database, server = await self._connect()
            try:
                with translated(self._target, rejects=BatchRejected):
                    with pymongo.timeout(self._timeout_s):
                        is_ours = self._positions.n and await self._positions.is_there(database)
                    if not is_ours:
                        # The server is behind what it acknowledged, or the outcome of a command is unknown.
                        await self._take(database, server)
                    with pymongo.timeout(self._timeout_s):
                        yield database, server
            except (BatchRejected, CommitsLost, OtherJournal):
                raise
            except BaseException:
                self._positions.n = 0
                raise


def _upto(keys: Array, last: tuple[int, int]) -> Array:
    """Tell which keys (`KEY`) are not above another; bool, shape (keys,)."""
    run, trigger = last
    return np.asarray((keys["run"] < run) | ((keys["run"] == run) & (keys["trigger"] <= trigger)))

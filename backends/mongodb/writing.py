"""The writing of one group into MongoDB, without transactions: the documents of a batch, and then its position.

Nothing is replaced or taken back. A batch of which the position was not inserted was never acknowledged; its documents
may be there, and whoever sends the same readings again finds them.

Inserts are not ordered. Where an `_id` is taken (11000) its trigger is read: readings that are there with the same
values are done, those that are not there are inserted as late ones, and one with other values is a conflict: its batch
is rejected. So a batch may be inserted again, whatever an earlier attempt has left.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import numpy as np
import pymongo

from backends.base import BatchRejected, CommitsLost, OtherJournal, StoreError, StoreUnavailable, is_committed
from backends.diagnosis import dropped_meanwhile, shortened
from backends.mongodb.protocol.documents import NotOurDocuments, Raw
from backends.mongodb.protocol.triggers import (
    ID,
    KEY,
    Written,
    decode_heads,
    decode_readings,
    encode_closed,
    encode_late,
    encode_revised,
    key_in,
    keys_of,
    merged,
    once,
    turned_ids,
    written_by,
)
from backends.mongodb.reading import documents
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.retention import accounts_at
from backends.mongodb.schema import GroupCollections
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer, check_index, translated
from backends.mongodb.server.facts import Database, Server
from backends.mongodb.server.positions import Heartbeat, Positions
from schemas.batch import Batch, Durability, JournalPosition, Stream
from schemas.ledger import pack_missing, unpack_missing
from schemas.queries import answer_dtype
from schemas.readings import Array, InstrumentGroup
from schemas.retention import are_within, spans_of

MESSAGE_BYTES = 8 * 1024 * 1024
"""Most that is sent as one message. pymongo takes a message for one document, of which a server allows 16 MB."""
MESSAGE_DOCUMENTS = 50_000
"""Most documents a message: a server allows 100,000."""
LANES = 2
"""Messages under way at the same time, each on a connection of its own."""
LANE_DOCUMENTS = 100
"""Fewer documents than this are not worth a second message; and FerretDB commits as many at a time."""
ROUNDS = 5
"""So often documents are inserted that are taken meanwhile, by commands which come late."""
READING = np.dtype([*KEY.descr, ("instrument", "<i4")])


class Stored(NamedTuple):
    """The stored part of some triggers.

    rows: ledger rows, without those that have slices alone. readings: `answer_dtype(group)`. has_readings: whether
    what closed each of the rows has its readings, and retention has not dropped them.
    """

    rows: Array
    readings: Array
    has_readings: Array


class Put:
    """The inserts of one batch.

    concern: the write concern of each. target: what messages call the server.
    """

    def __init__(self, reader: GroupReader, concern: dict[str, Any], target: str) -> None:
        self._reader = reader
        self._group = reader.group
        self._concern = concern
        self._target = target

    async def put(self, written: Written, stored: Array) -> None:
        """Insert documents. stored: the triggers (`KEY`) that may be there.

        Raises:
            BatchRejected: a reading is there with other values, or the server refuses a document.
            StoreUnavailable: also where a command that was given up is carried out meanwhile, again and again.
        """
        keys = stored
        for _ in range(ROUNDS):
            if len(keys):
                written = self._without(written, await self._stored(keys))
            keys = await self._insert(written)
            if not len(keys):
                return
            written = _only(written, keys)
        raise StoreUnavailable(f"{self._target}: documents of {self._reader.of.data!r} are being written by others")

    async def _insert(self, written: Written) -> Array:
        """Insert all documents; the triggers (`KEY`) of those that are taken, but for revised rows."""
        *slices, closed = encode_closed(written, self._group)
        cut = await self._send(slices)
        if len(cut):
            written = self._with_slices(written, await self._stored(cut))
            *_, closed = encode_closed(written, self._group)
        late = encode_late(written.late_rows, written.late, self._group)
        taken = await self._send([closed, late])
        await self._send([encode_revised(written.revised, self._group)])
        return taken

    async def _send(self, parts: Sequence[Array]) -> Array:
        messages = [documents[some] for documents in parts for some in _messages(*documents.shape)]
        taken = []
        for start in range(0, len(messages), LANES):
            lanes = messages[start : start + LANES]
            # All of them end before one's failure is raised: nothing may be under way when the batch is sent again.
            found = await asyncio.gather(*map(self._send_one, lanes), return_exceptions=True)
            for message, indices in zip(lanes, found, strict=True):
                if isinstance(indices, BaseException):
                    raise indices
                # The `_id` is the first element: a type byte, its name, a length and a subtype are before its value.
                at = 4 + 1 + len("_id") + 1 + 4 + 1
                taken += [message[indices, at : at + ID.itemsize]]
        ids = np.ascontiguousarray(np.concatenate([np.empty((0, ID.itemsize), np.uint8), *taken]))
        return np.unique(turned_ids(ids.view(f"V{ID.itemsize}")[:, 0])) if len(ids) else np.empty(0, KEY)

    async def _send_one(self, message: Array) -> list[int]:
        name = self._reader.of.data
        answer = await self._reader.database.command(
            "insert", name, documents=[Raw(message)], ordered=False, writeConcern=self._concern
        )
        taken = check_answer(answer, self._target, but=DUPLICATE_KEY)
        check_index(answer, self._target, name)
        return taken

    async def _stored(self, keys: Array) -> Stored:
        """Read what is there of triggers (`KEY`)."""
        data = bytearray()
        for wanted in documents.of_triggers(keys, self._reader.server):
            data += await self._reader.whole(wanted)
        try:
            heads, readings = decode_heads(data, self._group), once(decode_readings(data, self._group))
        except NotOurDocuments as error:
            raise BatchRejected(
                f"{self._target} has other documents in {self._reader.of.data!r} under the same key",
                shortened(str(error)),
            ) from None
        found = merged(heads[np.isin(keys_of(heads["row"]), keys)], self._group.size)
        return Stored(found.rows, readings[np.isin(keys_of(readings), keys)], found.is_stored)

    def _without(self, written: Written, stored: Stored) -> Written:
        """Leave out what is there; readings of triggers that are there, and have them not, become late ones."""
        closed = np.isin(keys_of(written.rows), keys_of(stored.rows))
        again = _readings_of(written, closed, self._group)
        again = again[self._are_new(again, stored)]
        added = again[~self._arrived(again, stored)]
        rows = _with_added(stored, added, written.rows[closed], self._group)
        late_there = np.isin(keys_of(written.late_rows), keys_of(stored.rows))
        late = _as_answers(written.late_rows, written.late, self._group)
        stays = self._are_new(late, stored) & ~(late_there & self._arrived(late, stored))
        self._check_dropped(keys_of(np.concatenate([added, late[stays]])), stored)
        return Written(
            written.rows[~closed],
            written.readings[~closed],
            written.present[~closed],
            np.concatenate([written.late[stays], _as_records(added, self._group)]),
            np.concatenate([written.late_rows[stays], rows]),
            written.revised,
        )

    def _with_slices(self, written: Written, stored: Stored) -> Written:
        """Name the slices that are there in place of our own; readings that they lack become late ones."""
        keys = keys_of(written.rows)
        cut = np.isin(keys, keys_of(stored.readings)) & ~np.isin(keys, keys_of(stored.rows))
        own = _readings_of(written, cut, self._group)
        added = own[self._are_new(own, stored)]
        rows, present = written.rows.copy(), written.present.copy()
        present[cut] = False
        there = stored.readings[np.isin(keys_of(stored.readings), keys[cut])]
        order = np.argsort(keys)
        present[order[np.searchsorted(keys, keys_of(there), sorter=order)], there["instrument"]] = True
        rows["missing"][cut], rows["arrived"][cut] = pack_missing(present[cut]), present[cut].sum(axis=1)
        late_rows = written.rows[order[np.searchsorted(keys, keys_of(added), sorter=order)]]
        return written._replace(
            rows=rows,
            present=present,
            late=np.concatenate([written.late, _as_records(added, self._group)]),
            late_rows=np.concatenate([written.late_rows, late_rows]),
        )

    def _are_new(self, mine: Array, stored: Stored) -> Array:
        """Tell which readings are not there; bool, as `mine`.

        Raises:
            BatchRejected: one is there with other values.
        """
        _, at, of = np.intersect1d(_names(mine), _names(stored.readings), assume_unique=True, return_indices=True)
        width = f"V{mine.dtype.itemsize}"
        # As bytes, since NaN is equal to nothing.
        differ = mine[at].view(width) != stored.readings[of].view(width)
        for run, trigger in keys_of(mine[at][differ])[:1].tolist():
            raise BatchRejected(
                f"{self._target} has other values under the same key: duplicate key in {self._reader.of.data!r}",
                f"trigger {trigger} of run {run}",
            )
        new = np.ones(len(mine), bool)
        new[at] = False
        return new

    def _arrived(self, mine: Array, stored: Stored) -> Array:
        """Tell which readings the ledger has, whether they are there or were dropped; bool, as `mine`."""
        keys = keys_of(stored.rows)
        if not len(keys):
            return np.zeros(len(mine), bool)
        at = np.minimum(np.searchsorted(keys, keys_of(mine)), len(keys) - 1)
        missing = unpack_missing(stored.rows["missing"], self._group.size)
        return np.asarray((keys[at] == keys_of(mine)) & ~missing[at, mine["instrument"]])

    def _check_dropped(self, keys: Array, stored: Stored) -> None:
        """Refuse readings for triggers whose others were dropped: alone they would be a part of a period."""
        gone = keys_of(stored.rows)[~stored.has_readings]
        for run, trigger in keys[np.isin(keys, gone)][:1].tolist():
            raise dropped_meanwhile(run, trigger)


def _names(readings: Array) -> Array:
    names = np.empty(len(readings), READING)
    for name in READING.names or ():
        names[name] = readings[name]
    return names


def _only(written: Written, keys: Array) -> Written:
    """Leave out what is of other triggers."""
    own, late = (np.isin(keys_of(rows), keys) for rows in (written.rows, written.late_rows))
    return Written(
        written.rows[own],
        written.readings[own],
        written.present[own],
        written.late[late],
        written.late_rows[late],
        written.revised[:0],
    )


def _readings_of(written: Written, which: Array, group: InstrumentGroup) -> Array:
    """Return the readings of some closed triggers; `answer_dtype(group)`."""
    present = written.present[which]
    rows = np.repeat(written.rows[which], present.sum(axis=1))
    return _as_answers(rows, written.readings[which][present], group)


def _as_answers(rows: Array, readings: Array, group: InstrumentGroup) -> Array:
    """Return readings as a store answers them, each with the ledger row of its trigger."""
    found = np.empty(len(readings), answer_dtype(group))
    found["run"], found["trigger"] = rows["run"], rows["trigger"]
    for name in ("instrument", "time_ns", *(channel.name for channel in group.channels)):
        found[name] = readings[name]
    return found


def _as_records(readings: Array, group: InstrumentGroup) -> Array:
    """Return answers as records."""
    found = np.zeros(len(readings), group.record)
    for name in ("trigger", "instrument", "time_ns", *(channel.name for channel in group.channels)):
        found[name] = readings[name]
    return found


def _with_added(stored: Stored, added: Array, mine: Array, group: InstrumentGroup) -> Array:
    """Return the ledger row of the trigger of each reading that is added to it."""
    rows, keys = stored.rows.copy(), keys_of(stored.rows)
    at = np.searchsorted(keys, keys_of(added))
    missing = unpack_missing(rows["missing"], group.size)
    missing[at, added["instrument"]] = False
    rows["missing"], rows["arrived"] = pack_missing(~missing), group.size - missing.sum(axis=1)
    np.add.at(rows["late"], at, 1)
    np.minimum.at(rows["first_ns"], at, added["time_ns"])
    np.maximum.at(rows["last_ns"], at, added["time_ns"])
    of = np.searchsorted(keys, keys_of(mine))
    for name in ("last_received_ns", "duplicates"):
        np.maximum.at(rows[name], of, mine[name])
    return rows[at]


def _messages(documents: int, width: int) -> list[slice]:
    most = max(1, min(MESSAGE_BYTES // width, MESSAGE_DOCUMENTS))
    if documents > LANE_DOCUMENTS:
        # As even as can be, a whole number for each lane, and whole commits of FerretDB.
        even = -(-documents // (LANES * LANE_DOCUMENTS)) * LANE_DOCUMENTS
        most = min(most, even)
    return [slice(start, min(start + most, documents)) for start in range(0, documents, most)]


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

"""The writing of one group into MongoDB, without transactions: a note, readings, the ledger, then the position.

The note says what is about to change (`unfinished`): what a batch has left that did not come to its end is taken out
before anything else is written or read. Every document has an `_id` that follows from what it is, so that writing it
again changes nothing: what is there already is found under its `_id`, compared, and left.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pymongo
from bson import Int64

from backends.base import BatchRejected, StoreError, StoreUnavailable, is_committed
from backends.columns.filling import ledger_rows
from backends.diagnosis.refusals import shortened
from backends.diagnosis.retention import dropped_meanwhile
from backends.ending import end_tasks
from backends.mongodb.accounts import ACCOUNTS, Notice, account_in, notice_in, stored_ids
from backends.mongodb.protocol.documents import DocumentFormat, NotOurDocuments, Raw
from backends.mongodb.protocol.formats import (
    data_format,
    encode_arrays,
    encode_ledger,
    encode_rows,
    entries_dtype,
    ledger_format,
)
from backends.mongodb.reading.documents import by_ids
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.schema.create import GroupCollections
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer, translated
from backends.mongodb.server.facts import Database, Server
from backends.mongodb.server.lease import NOTE, Lease, position_in
from backends.mongodb.writing.conflicts import arrays_to_set, ledger_to_replace, same
from backends.mongodb.writing.unfinished import (
    Unfinished,
    are_among,
    in_commands,
    keys_of,
    new_mark,
    stretches,
    take_out,
    unfinished_in,
)
from schemas.batch import Batch, Durability, JournalPosition, Layout, Stream
from schemas.readings import Array
from schemas.retention import Period, are_within, spans_of

log = logging.getLogger(__name__)

MESSAGE_BYTES = 8 * 1024 * 1024
"""Most that is sent as one message. pymongo takes a message for one document, of which a server allows 16 MB."""
MESSAGE_DOCUMENTS = 50_000
"""Most documents a message: a server allows 100,000."""
LANES = 2
"""Messages under way at the same time, each on a connection of its own."""
LANE_DOCUMENTS = 100
"""Fewer documents than this are not worth a second message; and FerretDB commits as many at a time."""

KEPT_MOST = 500_000
"""Most documents that are named beside the position, of 14 bytes each: a document has 16 MB at most."""

RELEASE_S = 2.0
"""How long closing waits to give a lease back; it lapses by itself."""

Connect = Callable[[], Awaitable[tuple[Database, Server]]]


class MongodbGroupWriter:
    """Writes one group of one logger; calls are put one after the other."""

    def __init__(
        self,
        *,
        collections: GroupCollections,
        logger: str,
        schema: str,
        target: str,
        connect: Connect,
        timeout_s: float,
    ) -> None:
        self._collections = collections
        self._logger = logger
        self._target = target
        self._connect = connect
        self._timeout_s = timeout_s
        self._lease = Lease(group=collections.data, schema=schema, logger=logger, target=target, timeout_s=timeout_s)
        self._positions: dict[Stream, JournalPosition] = {}
        self._notice: Notice | None = None
        self._turn = asyncio.Lock()
        self._renewing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take the group's lease, and renew it from now on."""
        async with self._session() as (database, _):
            if self._renewing is None:
                self._renewing = asyncio.create_task(self._lease.run(database), name=f"lease {self._collections.data}")

    async def close(self) -> None:
        """Give the lease back."""
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            await end_tasks(renewing)
        if self._lease.is_held:
            async with self._turn:
                try:
                    database, _ = await self._connect()
                    with translated(self._target), pymongo.timeout(min(self._timeout_s, RELEASE_S)):
                        await self._lease.release(database)
                except StoreError as error:
                    log.warning("the lease of group %r is left to lapse: %s", self._collections.data, error)

    async def position(self, stream: Stream) -> JournalPosition | None:
        """Up to where the database holds the group."""
        async with self._session() as (database, server):
            await self._look(database, server)
            found = self._positions[stream]
        return found if found.sequence else None

    async def commit(self, batch: Batch) -> None:
        """Commit a batch, or find that it is there."""
        async with self._session() as (database, server):
            found = self._positions[batch.stream]
            if is_committed(found, batch):
                return
            concern = server.write_concern(batch.durability, self._timeout_s)
            other = await self._put_documents(database, server, batch, concern)
            if other is None:
                other = await self._lease.move(database, batch, found, concern)
            if other is not None and not is_committed(other, batch):
                raise StoreUnavailable(f"the position of group {batch.group.name!r} was changed by somebody else")
            self._positions[batch.stream] = other or batch.position

    async def rehearse(self, batch: Batch) -> None:
        """Write a batch without its position, and take it out again."""
        async with self._session() as (database, server):
            if not is_committed(self._positions[batch.stream], batch):
                concern = server.write_concern(batch.durability, self._timeout_s)
                await self._put_documents(database, server, batch, concern)
                await self._look(database, server)

    async def dropping(self) -> Notice | None:
        """The period that is being dropped."""
        async with self._session():
            return self._notice

    async def begin_dropping(self, notice: Notice) -> None:
        """Note that a period is being dropped: what is there of its time now, and nothing that comes later.

        Between batches: nothing of one that did not end is there.
        """
        async with self._session() as (database, server):
            concern = server.write_concern(Durability.SYNC, self._timeout_s)
            await self._lease.begin_dropping(database, notice.fields(), concern)
            self._notice = notice

    async def end_dropping(self, notice: Notice) -> None:
        """Note that a period was dropped."""
        async with self._session() as (database, _):
            await self._lease.end_dropping(database, notice.begun_ns)
            self._notice = None

    async def _keep(self, database: Database, server: Server, batch: Batch) -> None:
        """Name what a batch has of the time of a period that is being dropped, by a wrong clock: it stays."""
        notice = self._notice
        if notice is None:
            return
        form, documents = data_format(batch.group, self._collections.layout), self._new_documents(batch)
        columns, period = form.columns(documents), notice.period
        ids = columns["_id"][(columns["time_ns"] >= period.start_ns) & (columns["time_ns"] < period.end_ns)]
        ids = np.setdiff1d(ids, notice.kept)
        if not len(ids):
            return
        if len(notice.kept) + len(ids) > KEPT_MOST:
            raise StoreUnavailable(
                f"more than {KEPT_MOST:,} readings came with times of {period.name}, which is being dropped: what else"
                " comes waits until that has ended"
            )
        concern = server.write_concern(Durability.SYNC, self._timeout_s)
        await self._lease.keep_documents(database, notice.begun_ns, stored_ids(ids), concern)
        self._notice = replace(notice, kept=np.concatenate([notice.kept, ids]))

    async def _see_not_dropped(self, database: Database, server: Server, batch: Batch) -> None:
        """See that what comes late for arrays finds them: of a period that is dropped they go, or are gone.

        Raises:
            BatchRejected: it does not.
        """
        if self._collections.layout is Layout.ROWS or not len(batch.late):
            return
        earlier = encode_arrays(batch, batch.group)[len(batch.ledger) :]
        if not len(earlier):  # all of it is of triggers that this batch adds
            return
        form = data_format(batch.group, Layout.ARRAYS)
        columns = form.columns(earlier)
        ids, times = columns["_id"], columns["time_ns"]
        spans = spans_of(await self._dropped_of(database, times))
        gone = are_within(spans, times)
        if not gone.any():
            return
        there = form.parse(await by_ids(database.get_collection(self._collections.data), ids[gone], form, server))
        gone &= ~np.isin(ids, form.columns(there)["_id"])
        if self._notice is not None:
            going = are_within(spans_of([self._notice.period]), times)
            gone |= going & ~np.isin(ids, self._notice.kept)
        for run, trigger in zip(columns["run"][gone].tolist(), columns["trigger_id"][gone].tolist(), strict=True):
            raise dropped_meanwhile(run, trigger)

    async def _dropped_of(self, database: Database, times: Array) -> list[Period]:
        """The periods that were dropped, or are being dropped, and may have some of these times."""
        wanted = {"start_ns": {"$lte": Int64(times.max())}, "end_ns": {"$gt": Int64(times.min())}}
        accounts = database.get_collection(ACCOUNTS).find({"group": self._collections.data, **wanted})
        found = [account_in(each).period for each in await accounts.to_list()]
        return found if self._notice is None else [*found, self._notice.period]

    def _new_documents(self, batch: Batch) -> Array:
        """The documents that a batch adds; of earlier triggers there are arrays already."""
        if self._collections.layout is Layout.ROWS:
            return encode_rows(batch, batch.group)
        return encode_arrays(batch, batch.group)[: len(batch.ledger)]

    async def _look(self, database: Database, server: Server) -> None:
        """Read the positions; what a batch that did not end has left is taken out."""
        found = await self._lease.document(database)
        positions = {stream: position_in(found, stream) for stream in Stream}
        if found.get(NOTE):
            note = unfinished_in(found[NOTE], self._collections.group)
            await take_out(self._reader(database, server), note, self._target)
            await self._lease.note(database, Stream.JOURNAL, positions[Stream.JOURNAL], None)
        self._positions, self._notice = positions, notice_in(found, self._collections.layout)

    async def _put_documents(
        self, database: Database, server: Server, batch: Batch, concern: dict[str, Any]
    ) -> JournalPosition | None:
        """Note what is going to change, write readings and ledger; another position where it is not the one found."""
        await self._lease.keep(database)
        await self._see_not_dropped(database, server, batch)
        reader = self._reader(database, server)
        note = await self._note(reader, batch)
        other = await self._lease.note(database, batch.stream, self._positions[batch.stream], note.fields())
        if other is not None:
            return other
        await self._keep(database, server, batch)
        put = _Put(database, server, concern, self._target)
        try:
            await self._put(put, batch, note.mark)
        except BatchRejected:
            # A command of a daemon that was killed may have been carried out since its batch was taken out.
            await take_out(reader, note, self._target)
            await self._put(put, batch, note.mark)
        return None

    async def _note(self, reader: GroupReader, batch: Batch) -> Unfinished:
        revised = np.empty(0, entries_dtype(batch.group.size))
        if len(batch.revised):
            keys = keys_of(batch.revised)
            there = await reader.entries(stretches(keys))
            revised = there[are_among(there["row"], batch.revised)]
        triggers = stretches(keys_of(ledger_rows(batch)))
        return Unfinished(mark=new_mark(), triggers=triggers, revised=revised)

    def _reader(self, database: Database, server: Server) -> GroupReader:
        return GroupReader(database=database, server=server, of=self._collections, logger=self._logger)

    async def _put(self, put: "_Put", batch: Batch, mark: int) -> None:
        if self._collections.layout is Layout.ARRAYS:
            await self._put_arrays(put, batch)
        else:
            await self._put_rows(put, batch)
        await self._put_ledger(put, batch, mark)

    async def _put_rows(self, put: "_Put", batch: Batch) -> None:
        form = data_format(batch.group, Layout.ROWS)
        documents = encode_rows(batch, batch.group)
        await put.insert(self._collections.data, form, documents, self._same_rows)

    async def _same_rows(self, put: "_Put", name: str, mine: Array, theirs: Array) -> None:
        self._reject(same(mine, theirs), mine, data_format(self._collections.group, Layout.ROWS))

    async def _put_arrays(self, put: "_Put", batch: Batch) -> None:
        form = data_format(batch.group, Layout.ARRAYS)
        documents = encode_arrays(batch, batch.group)
        own = len(batch.ledger)
        # Apart, since those of earlier triggers are expected to be there.
        for part in (documents[:own], documents[own:]):
            await put.insert(self._collections.data, form, part, self._set_elements)

    async def _set_elements(self, put: "_Put", name: str, mine: Array, theirs: Array) -> None:
        """Add the readings that a trigger's document lacks, an element each: two such changes never undo each other."""
        fits, updates = arrays_to_set(mine, theirs, self._collections.group, all_doubles=put.server.keeps_all_doubles)
        self._reject(fits, mine, data_format(self._collections.group, Layout.ARRAYS))
        await put.update(name, updates)

    async def _put_ledger(self, put: "_Put", batch: Batch, mark: int) -> None:
        rows = ledger_rows(batch)
        documents = encode_ledger(rows, batch.group.size, self._logger, mark)
        form = ledger_format(batch.group.size, self._logger)
        own = len(rows) - len(batch.revised)
        for part in (documents[:own], documents[own:]):
            await put.insert(self._collections.ledger, form, part, self._replace_ledger)

    async def _replace_ledger(self, put: "_Put", name: str, mine: Array, theirs: Array) -> None:
        """Put later revisions in place of earlier ones; what is there may be the later one, after a crash."""
        form = ledger_format(self._collections.group.size, self._logger)
        fits, updates = ledger_to_replace(mine, theirs, form, guarded=put.server.uses_indexes)
        self._reject(fits, mine, form)
        await put.update(name, updates)

    def _reject(self, fits: Array, mine: Array, form: DocumentFormat) -> None:
        if fits.all():
            return
        columns = form.columns(mine[~fits][:1])
        trigger, run = int(columns["trigger_id"][0]), int(columns["run"][0])
        raise BatchRejected(
            f"{self._target} has other values under the same key: duplicate key in {self._collections.data!r}",
            f"trigger {trigger} of run {run}",
        )

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[tuple[Database, Server]]:
        async with self._turn:
            database, server = await self._connect()
            try:
                with translated(self._target, otherwise=BatchRejected):
                    if not self._lease.is_held:
                        await self._lease.take(database)
                        self._positions = {}
                    with pymongo.timeout(self._timeout_s):
                        if not self._positions:
                            await self._look(database, server)
                        yield database, server
            except BaseException:
                # The position says what of it was done.
                self._positions = {}
                raise


Resolve = Callable[["_Put", str, Array, Array], Awaitable[None]]


class _Put:
    """The write commands of one batch."""

    def __init__(self, database: Database, server: Server, concern: dict[str, Any], target: str) -> None:
        self.server = server
        self._database = database
        self._concern = concern
        self._target = target

    async def insert(self, name: str, form: DocumentFormat, documents: Array, resolve: Resolve) -> None:
        """Insert documents (uint8, shape (documents, width)).

        Of those whose `_id` is taken `resolve` gets ours and what is there, document by document.
        """
        if not len(documents):
            return
        if not self.server.keeps_all_doubles:
            form.mark_specials(documents)
        messages = _messages(len(documents), form.width)
        taken: list[int] = []
        for start in range(0, len(messages), LANES):
            lanes = messages[start : start + LANES]
            # All of them end before one's failure is raised: nothing may be under way when the batch comes again.
            found = await asyncio.gather(
                *(self._send(name, documents[message]) for message in lanes), return_exceptions=True
            )
            for message, indices in zip(lanes, found, strict=True):
                if isinstance(indices, BaseException):
                    raise indices
                taken += [message.start + index for index in indices]
        if taken:
            mine = documents[np.array(taken)]
            theirs = await self._there(name, form, mine)
            await resolve(self, name, mine, theirs)

    async def update(self, name: str, updates: list[dict[str, Any]]) -> None:
        """Apply updates."""
        for some in in_commands(updates):
            answer = await self._database.command("update", name, updates=some, writeConcern=self._concern)
            check_answer(answer, self._target)

    async def _send(self, name: str, documents: Array) -> list[int]:
        answer = await self._database.command(
            "insert", name, documents=[Raw(documents)], ordered=False, writeConcern=self._concern
        )
        return check_answer(answer, self._target, but=DUPLICATE_KEY)

    async def _there(self, name: str, form: DocumentFormat, mine: Array) -> Array:
        ids = form.columns(mine)["_id"]
        try:
            theirs = form.parse(await by_ids(self._database.get_collection(name), ids, form, self.server))
        except NotOurDocuments as error:
            raise BatchRejected(
                f"{self._target} has other documents in {name!r} under the same key", shortened(str(error))
            ) from None
        order = np.argsort(found := form.columns(theirs)["_id"])
        at = np.searchsorted(found, ids, sorter=order) if len(found) else np.zeros(len(ids), np.intp)
        at = order[np.minimum(at, len(found) - 1)] if len(found) else at
        if not len(found) or (found[at] != ids).any():
            raise BatchRejected(f"{self._target}: documents of {name!r} were taken away while they were compared")
        return theirs[at]


def _messages(documents: int, width: int) -> list[slice]:
    most = max(1, min(MESSAGE_BYTES // width, MESSAGE_DOCUMENTS))
    if documents > LANE_DOCUMENTS:
        # As even as can be, a whole number for each lane, and whole commits of FerretDB.
        even = -(-documents // (LANES * LANE_DOCUMENTS)) * LANE_DOCUMENTS
        most = min(most, even)
    return [slice(start, min(start + most, documents)) for start in range(0, documents, most)]

"""The writing of one group into MongoDB, without transactions: a note, readings, the ledger, then the position.

The note says what is about to change (`unfinished`): what a batch has left that did not come to its end is taken out
before anything else is written or read. Every document has an `_id` that follows from what it is, so that writing it
again changes nothing: what is there already is found under its `_id`, compared, and left.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pymongo

from backends.base import BatchRejected, StoreError, StoreUnavailable, is_committed
from backends.columns.filling import ledger_rows
from backends.ending import end_tasks
from backends.mongodb.accounts import Notice, account_of, notice_in
from backends.mongodb.protocol.documents import DocumentFormat
from backends.mongodb.protocol.formats import (
    data_format,
    encode_arrays,
    encode_ledger,
    encode_rows,
    entries_dtype,
    ledger_format,
)
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.schema.create import GroupCollections
from backends.mongodb.server.errors import translated
from backends.mongodb.server.facts import Database, Server
from backends.mongodb.server.lease import NOTE, Lease, position_in
from backends.mongodb.writing.beside import BesidePeriods
from backends.mongodb.writing.conflicts import arrays_to_set, ledger_to_replace, marks_to_set, same
from backends.mongodb.writing.putting import Put
from backends.mongodb.writing.unfinished import (
    Unfinished,
    are_among,
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

STEP_WITHIN_S = 300.0
"""How long a step of reducing may take at most; one that is ended by this is gone on with."""
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
        self._beside = BesidePeriods(collections, self._lease, target=target, timeout_s=timeout_s)
        self._breaks = 0
        self._owns = False
        self._reducing: list[Period] = []
        self._steps = asyncio.Lock()
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
        async with self._beside_steps(batch), self._session() as (database, server):
            found = self._positions[batch.stream]
            if is_committed(found, batch):
                return
            concern = server.write_concern(batch.durability, self._timeout_s)
            mark = new_mark()
            other = await self._put_documents(database, server, batch, concern, mark)
            if other is None:
                other = await self._lease.move(database, batch, found, mark, concern)
            if other is not None and not is_committed(other, batch):
                raise StoreUnavailable(f"the position of group {batch.group.name!r} was changed by somebody else")
            self._positions[batch.stream] = other or batch.position

    async def rehearse(self, batch: Batch) -> None:
        """Write a batch without its position, and take it out again."""
        async with self._beside_steps(batch), self._session() as (database, server):
            if not is_committed(self._positions[batch.stream], batch):
                concern = server.write_concern(batch.durability, self._timeout_s)
                await self._put_documents(database, server, batch, concern, new_mark())
                await self._look(database, server)

    async def dropping(self) -> Notice | None:
        """The period that is being dropped."""
        async with self._session():
            return self._beside.notice

    async def begin_dropping(self, notice: Notice) -> None:
        """Note that a period is being dropped: what is there of its time now, and nothing that comes later.

        Between batches: nothing of one that did not end is there. And between the steps of reducing.
        """
        async with self._steps, self._session() as (database, server):
            await self._beside.see_answered(self._reader(database, server))
            account = await account_of(database, self._collections.data, self._collections.layout)
            for each in account.reduced.values():
                if each.period == notice.period and len(each.going):
                    await self._beside.end_step(self._reader(database, server), each)
            concern = server.write_concern(Durability.SYNC, self._timeout_s)
            await self._lease.begin_dropping(database, notice.fields(), concern)
            self._beside.notice = notice

    async def end_dropping(self, notice: Notice) -> None:
        """Note that a period was dropped."""
        async with self._session() as (database, _):
            await self._lease.end_dropping(database, notice.begun_ns)
            self._beside.notice = None

    @asynccontextmanager
    async def reducing(self, period: Period) -> AsyncIterator[None]:
        """While this lasts what comes late for triggers of a period waits for the end of a step."""
        self._reducing.append(period)
        try:
            yield
        finally:
            self._reducing.remove(period)

    @asynccontextmanager
    async def in_step(self) -> AsyncIterator[None]:
        """A step of reducing: nothing comes late for triggers of that period, and no drop begins.

        Batches may wait for it: so a server that does not answer ends it.
        """
        async with self._steps, asyncio.timeout(STEP_WITHIN_S):
            yield

    @asynccontextmanager
    async def between_batches(self) -> AsyncIterator[tuple[GroupReader, BesidePeriods, int]]:
        """Nothing of a batch that did not end is there; with how often that was not so since the writer was made.

        Whoever has read documents since an earlier such moment may have read some of a batch that was taken out, or
        before another daemon has changed them, where that number has grown.
        """
        async with self._session() as (database, server):
            yield self._reader(database, server), self._beside, self._breaks

    @asynccontextmanager
    async def _beside_steps(self, batch: Batch) -> AsyncIterator[None]:
        """Wait for the end of a step where a batch has late readings for arrays of a period that is being reduced."""
        times = batch.revised["time_ns"][batch.late_of]
        is_late = bool(self._reducing) and are_within(spans_of(self._reducing), times).any()
        if is_late and self._collections.layout is Layout.ARRAYS:
            async with self._steps:
                yield
        else:
            yield

    async def _take_out(self, reader: GroupReader, note: Unfinished) -> None:
        self._breaks += 1
        await take_out(reader, note, self._target)

    async def _look(self, database: Database, server: Server) -> None:
        """Read the positions; what a batch that did not end has left is taken out."""
        found = await self._lease.document(database)
        while found.get(NOTE):
            note = unfinished_in(found[NOTE], self._collections.group)
            if await self._lease.give_up(database, note.mark):
                await self._take_out(self._reader(database, server), note)
                await self._lease.end_note(database, note.mark)
                break
            # A command that moved the position, and that had no answer, was carried out just now.
            found = await self._lease.document(database)
        positions = {stream: position_in(found, stream) for stream in Stream}
        self._positions, self._beside.notice = positions, notice_in(found, self._collections.layout)

    async def _put_documents(
        self, database: Database, server: Server, batch: Batch, concern: dict[str, Any], mark: int
    ) -> JournalPosition | None:
        """Note what is going to change, write readings and ledger; another position where it is not the one found."""
        await self._lease.keep(database)
        reader = self._reader(database, server)
        await self._beside.see_late(reader, batch)
        note = await self._note(reader, batch, mark)
        other = await self._lease.note(database, batch.stream, self._positions[batch.stream], note.fields())
        if other is not None:
            return other
        await self._beside.keep(database, server, batch)
        put = Put(database, server, concern, self._target)
        try:
            await self._put(put, batch, note.mark)
        except BatchRejected:
            # A command of a daemon that was killed may have been carried out since its batch was taken out.
            await self._take_out(reader, note)
            await self._put(put, batch, note.mark)
        return None

    async def _note(self, reader: GroupReader, batch: Batch, mark: int) -> Unfinished:
        revised = np.empty(0, entries_dtype(batch.group.size))
        if len(batch.revised):
            keys = keys_of(batch.revised)
            there = await reader.entries(stretches(keys))
            revised = there[are_among(there["row"], batch.revised)]
        triggers = stretches(keys_of(ledger_rows(batch)))
        return Unfinished(mark=mark, triggers=triggers, revised=revised)

    def _reader(self, database: Database, server: Server) -> GroupReader:
        return GroupReader(database=database, server=server, of=self._collections, logger=self._logger)

    async def _put(self, put: Put, batch: Batch, mark: int) -> None:
        if self._collections.layout is Layout.ARRAYS:
            await self._put_arrays(put, batch, mark)
        else:
            await self._put_rows(put, batch, mark)
        await self._put_ledger(put, batch, mark)

    async def _put_rows(self, put: Put, batch: Batch, mark: int) -> None:
        form = data_format(batch.group, Layout.ROWS)
        documents = encode_rows(batch, batch.group, mark)
        await put.insert(self._collections.data, form, documents, self._same_rows)

    async def _same_rows(self, put: Put, name: str, mine: Array, theirs: Array) -> None:
        form = data_format(self._collections.group, Layout.ROWS)
        self._reject(same(mine, theirs, form), mine, form)
        await self._make_ours(put, name, mine, theirs)

    async def _put_arrays(self, put: Put, batch: Batch, mark: int) -> None:
        form = data_format(batch.group, Layout.ARRAYS)
        documents = encode_arrays(batch, batch.group, mark)
        own = len(batch.ledger)
        # Apart, since those of earlier triggers are expected to be there.
        for part in (documents[:own], documents[own:]):
            await put.insert(self._collections.data, form, part, self._set_elements)

    async def _set_elements(self, put: Put, name: str, mine: Array, theirs: Array) -> None:
        """Add the readings that a trigger's document lacks, an element each: two such changes never undo each other."""
        fits, lacks, updates = arrays_to_set(
            mine,
            theirs,
            self._collections.group,
            all_doubles=put.server.keeps_all_doubles,
            guarded=put.server.uses_indexes,
        )
        self._reject(fits, mine, data_format(self._collections.group, Layout.ARRAYS))
        self._see_found(name, await put.update(name, updates), len(updates))
        await self._make_ours(put, name, mine[~lacks], theirs[~lacks])

    async def _make_ours(self, put: Put, name: str, mine: Array, theirs: Array) -> None:
        """Give readings that are there already the mark of our batch."""
        form = data_format(self._collections.group, self._collections.layout)
        updates = [*marks_to_set(mine, theirs, form, narrowed=not put.server.uses_indexes)]
        found = await put.update(name, [update for update, _ in updates])
        self._see_found(name, found, sum(count for _, count in updates))

    def _see_found(self, name: str, found: int, wanted: int) -> None:
        # A command that was given up, and comes late, has been carried out since: the batch begins anew.
        if found < wanted:
            raise StoreUnavailable(f"{self._target}: documents of {name!r} were changed while they were compared")

    async def _put_ledger(self, put: Put, batch: Batch, mark: int) -> None:
        rows = ledger_rows(batch)
        documents = encode_ledger(rows, batch.group.size, self._logger, mark)
        form = ledger_format(batch.group.size, self._logger)
        own = len(rows) - len(batch.revised)
        for part in (documents[:own], documents[own:]):
            await put.insert(self._collections.ledger, form, part, self._replace_ledger)

    async def _replace_ledger(self, put: Put, name: str, mine: Array, theirs: Array) -> None:
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
                with translated(self._target, rejects=BatchRejected):
                    if not self._lease.is_held:
                        self._owns = False
                        await self._lease.take(database)
                    with pymongo.timeout(self._timeout_s):
                        if not self._owns:
                            await self._beside.own(self._reader(database, server))
                            self._owns = True
                            self._positions = {}
                            self._breaks += 1
                        if not self._positions:
                            await self._look(database, server)
                        yield database, server
            except BaseException:
                # The position says what of it was done.
                self._positions = {}
                raise

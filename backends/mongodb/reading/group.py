"""One group as it is asked about: its ledger rows and readings, at once or in chunks."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np

from backends.mongodb.protocol.documents import id_dtype, turned
from backends.mongodb.protocol.formats import (
    BATCH,
    TRIGGER_ID,
    arrays_format,
    data_format,
    decode_entries,
    decode_ledger,
    decode_readings,
    ids_format,
    ledger_format,
    marked_ids_format,
    marks_of_readings,
)
from backends.mongodb.reading import documents
from backends.mongodb.schema.create import GroupCollections
from backends.mongodb.server.facts import Database, Server
from schemas.batch import Layout
from schemas.ledger import ledger_dtype
from schemas.readings import Array

CHUNK_BYTES = 2 * 1024 * 1024
"""About so much is taken apart at once: the event loop has its turn in between."""


@dataclass(frozen=True, kw_only=True)
class GroupReader:
    """The collections of a group, the server that has them, and the logger that writes them."""

    database: Database
    server: Server
    of: GroupCollections
    logger: str

    @property
    def data(self) -> documents.Collection:
        """The readings' collection."""
        return self.database.get_collection(self.of.data)

    async def ledger(self, filter_: documents.Filter, sort: documents.Sort, most: int = 1) -> Array:
        """Find ledger rows, `most` at most; `ledger_dtype(size)`."""
        size = self.of.group.size
        if most < 1:
            return np.empty(0, ledger_dtype(size))
        form = ledger_format(size, self.logger)
        found = await documents.found(self._ledger, filter_, form, sort, most)
        return decode_ledger(found, size, self.logger)

    async def ledger_of_triggers(self, run: int, triggers: Array) -> Array:
        """Find the ledger rows of triggers of a run, in any order; `ledger_dtype(size)`."""
        ids = np.empty(len(triggers), id_dtype(reading=False))
        ids["run"], ids["trigger"] = run, turned(triggers)
        ledger, form = self._ledger, ledger_format(self.of.group.size, self.logger)
        found = await documents.by_ids(ledger, ids.view(TRIGGER_ID), form, self.server)
        rows = decode_ledger(found, self.of.group.size, self.logger)
        # Where there is no index to use, all between the first and the last of them are found.
        return np.asarray(rows[np.isin(rows["trigger"], triggers)])

    async def entries(self, stretches: Array) -> Array:
        """Find the ledger entries of stretches of triggers (run, first, last), and perhaps others."""
        found, form = bytearray(), ledger_format(self.of.group.size, self.logger)
        for wanted in documents.in_stretches(stretches, Layout.ARRAYS, self.server):
            found += await documents.found(self._ledger, wanted, form)
        return decode_entries(found, self.of.group.size, self.logger)

    @property
    def _ledger(self) -> documents.Collection:
        return self.database.get_collection(self.of.ledger)

    async def readings(self, filter_: documents.Filter, sort: documents.Sort = (), most: int = 0) -> Array:
        """Find readings, all at once, of `most` documents at most; `answer_dtype(group)`."""
        return self.decoded(await self.found(filter_, sort, most))

    async def found(self, filter_: documents.Filter, sort: documents.Sort = (), most: int = 0) -> bytearray:
        """Find documents of readings, all at once, `most` at most."""
        return await documents.found(self.data, filter_, data_format(self.of.group, self.of.layout), sort, most)

    def decoded(self, found: bytes | bytearray, without: Array | None = None) -> Array:
        """Readings of documents, without those of some `_id`s (void, shape (n,)); `answer_dtype(group)`."""
        if without is not None and len(without):
            form = data_format(self.of.group, self.of.layout)
            every = form.parse(found)
            found = every[~np.isin(form.columns(every)["_id"], without)].tobytes()
        return decode_readings(found, self.of.group, self.of.layout)

    async def ids(self, filter_: documents.Filter) -> AsyncGenerator[Array, None]:
        """Find the `_id`s of readings' documents, some at a time; void, shape (n,)."""
        form = ids_format(self.of.layout)
        async with aclosing(documents.batches(self.data, filter_, form, fields={"_id": 1})) as batches:
            async for batch in batches:
                yield np.ascontiguousarray(form.columns(form.parse(batch))["_id"])

    async def marked_ids(self, stretches: Array) -> AsyncGenerator[tuple[Array, Array], None]:
        """Find the `_id`s of readings' documents of stretches of triggers, and perhaps others, some at a time.

        With the marks of their batches, int32, shape (n,).
        """
        form = marked_ids_format(self.of.layout)
        for wanted in documents.in_stretches(stretches, self.of.layout, self.server):
            found = documents.batches(self.data, wanted, form, fields={"_id": 1, BATCH: 1})
            async with aclosing(found) as batches:
                async for batch in batches:
                    columns = form.columns(form.parse(batch))
                    yield np.ascontiguousarray(columns["_id"]), np.ascontiguousarray(columns[BATCH])

    async def marked(self, filter_: documents.Filter) -> AsyncGenerator[tuple[Array, Array], None]:
        """Find readings, some at a time, and the marks of their batches: int32, shape (readings,)."""
        async with aclosing(self._batches(filter_, ())) as batches:
            async for batch in batches:
                yield self.decoded(batch), marks_of_readings(batch, self.of.group, self.of.layout)

    async def chunks(
        self, filter_: documents.Filter, sort: documents.Sort = (), *, without: Array | None = None
    ) -> AsyncGenerator[Array, None]:
        """Find readings, some at a time, without those of some `_id`s; `answer_dtype(group)`."""
        async with aclosing(self._batches(filter_, sort)) as batches:
            async for batch in batches:
                yield self.decoded(batch, without)

    async def triggers(
        self, filter_: documents.Filter, sort: documents.Sort
    ) -> AsyncGenerator[tuple[int, Array], None]:
        """Find triggers of the arrays layout, some at a time: the earliest one's time in ns, and their readings."""
        form = arrays_format(self.of.group)
        async with aclosing(self._batches(filter_, sort)) as batches:
            async for batch in batches:
                times = form.columns(form.parse(batch))["time_ns"]
                if len(times):
                    yield int(times.min()), self.decoded(batch)

    def _batches(self, filter_: documents.Filter, sort: documents.Sort) -> AsyncGenerator[bytes, None]:
        form = data_format(self.of.group, self.of.layout)
        return documents.batches(self.data, filter_, form, sort, enough=max(1, CHUNK_BYTES // form.width))

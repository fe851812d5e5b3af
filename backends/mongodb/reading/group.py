"""One group as it is queried: its ledger rows and readings, at once or in chunks."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np

from backends.mongodb.protocol.triggers import (
    REVISION,
    Merged,
    decode_heads,
    decode_readings,
    document_format,
    head_dtype,
    keys_of,
    merged,
    once,
    projection,
    slice_of,
)
from backends.mongodb.reading import documents
from backends.mongodb.schema import GroupCollections
from backends.mongodb.server.facts import Database, Server
from schemas.ledger import ledger_dtype
from schemas.readings import Array, InstrumentGroup

CHUNK_BYTES = 2 * 1024 * 1024
"""About so much is taken apart at once: the event loop has its turn in between."""


@dataclass(frozen=True, kw_only=True)
class GroupReader:
    """The collection of a group, and the server that has it."""

    database: Database
    server: Server
    of: GroupCollections

    @property
    def group(self) -> InstrumentGroup:
        """The group."""
        return self.of.group

    @property
    def collection(self) -> documents.Collection:
        """Its collection."""
        return self.database.get_collection(self.of.data)

    @property
    def header_width(self) -> int:
        """Bytes of a document without its readings."""
        return document_format(self.group, 0).width

    @property
    def width(self) -> int:
        """Bytes of a document with all readings that it may have."""
        return document_format(self.group, slice_of(self.group) or self.group.size).width

    # --- the ledger -------------------------------------------------------------------------------------------------

    async def heads(
        self, filter_: documents.Filter, sort: documents.Sort = (), *, most: int = 0, enough: int = 0
    ) -> AsyncGenerator[Array, None]:
        """Find what documents say beside their readings, some at a time; `head_dtype(size)`."""
        found = documents.batches(
            self.collection,
            filter_,
            self.header_width,
            sort,
            most=most,
            enough=enough or CHUNK_BYTES // self.header_width,
            fields=projection(self.group.size),
        )
        async with aclosing(found) as batches:
            async for batch in batches:
                yield decode_heads(batch, self.group)

    async def all_heads(self, filter_: documents.Filter, sort: documents.Sort = (), most: int = 0) -> Array:
        """Find them all at once, `most` at most."""
        async with aclosing(self.heads(filter_, sort, most=most)) as found:
            return np.concatenate([np.empty(0, head_dtype(self.group.size)), *[each async for each in found]])

    async def ledger_end(self, filter_: documents.Filter, sort: documents.Sort, most: int = 1) -> Array:
        """Find the ledger rows of the first `most` triggers in an order by `_id`, ascending by run and trigger."""
        parts = [np.empty(0, head_dtype(self.group.size))]
        if most < 1:
            return parts[0]["row"]
        # One more than is wanted: only then the last one is whole.
        async with aclosing(self.heads(filter_, sort, enough=most + 1)) as found:
            async for heads in found:
                parts.append(heads[(heads["part"] == 0) | (heads["part"] >= REVISION)])
                if len(np.unique(keys_of(np.concatenate(parts)["row"]))) > most:
                    break
        rows = merged(np.concatenate(parts), self.group.size).rows
        return rows[-most:] if list(sort) == list(documents.NEWEST_FIRST) else rows[:most]

    async def ledger_of(self, keys: Array) -> Array:
        """Find the ledger rows of triggers (`KEY`), by run and trigger."""
        parts = [await self.all_heads(wanted) for wanted in documents.of_triggers(keys, self.server)]
        heads = np.concatenate([np.empty(0, head_dtype(self.group.size)), *parts])
        return merged(heads[np.isin(keys_of(heads["row"]), keys)], self.group.size).rows

    async def whole_ledger(self, filter_: documents.Filter) -> AsyncGenerator[Merged, None]:
        """Go through triggers in the order of `_id`, some at a time."""
        rest = np.empty(0, head_dtype(self.group.size))
        async with aclosing(self.heads(filter_, documents.OLDEST_FIRST)) as found:
            async for heads in found:
                rest = np.concatenate([rest, heads])
                keys = keys_of(rest["row"])
                # The last one may go on in the next batch.
                is_last = keys == keys[-1:]
                if not is_last.all():
                    yield merged(rest[~is_last], self.group.size)
                    rest = rest[is_last]
        if len(rest):
            yield merged(rest, self.group.size)

    def no_ledger(self) -> Array:
        """Return no ledger rows."""
        return np.empty(0, ledger_dtype(self.group.size))

    # --- readings ---------------------------------------------------------------------------------------------------

    async def whole(self, filter_: documents.Filter) -> bytearray:
        """Find documents, all at once, one after the other."""
        data = bytearray()
        async with aclosing(documents.batches(self.collection, filter_, self.width)) as batches:
            async for batch in batches:
                data += batch
        return data

    async def readings(self, filter_: documents.Filter) -> Array:
        """Find readings, all at once; `answer_dtype(group)`, by trigger and instrument."""
        return once(decode_readings(await self.whole(filter_), self.group))

    async def chunks(
        self, filter_: documents.Filter, sort: documents.Sort = ()
    ) -> AsyncGenerator[tuple[int, Array], None]:
        """Find readings, some at a time: the earliest trigger's time in ns, and readings, `answer_dtype(group)`."""
        enough = max(1, CHUNK_BYTES // self.width)
        async with aclosing(documents.batches(self.collection, filter_, self.width, sort, enough=enough)) as batches:
            async for batch in batches:
                heads = decode_heads(batch, self.group)
                if len(heads):
                    yield int(heads["row"]["time_ns"].min()), once(decode_readings(batch, self.group))

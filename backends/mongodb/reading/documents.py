"""Queries for documents of a group, and their answers, in batches of BSON that are parsed as they come."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from bson import Binary, Int64
from pymongo import ASCENDING, DESCENDING
from pymongo.asynchronous.collection import AsyncCollection

from backends.columns.stored import slack
from backends.mongodb.protocol.documents import USER_DEFINED
from backends.mongodb.protocol.triggers import id_bytes
from backends.mongodb.server.facts import Server
from schemas.readings import Array

Collection = AsyncCollection[dict[str, Any]]
Filter = dict[str, Any]
Sort = Sequence[tuple[str, int]]

BATCH_BYTES = 8 * 1024 * 1024
STRETCHES = 100
"""Ranges of `_id`s in one query."""
LAST_PART = 0xFFFF_FFFF
LEAST, MOST = -(2**63), 2**63 - 1

LATEST_FIRST: Sort = [("time_ns", DESCENDING)]
NEWEST_FIRST: Sort = [("_id", DESCENDING)]
OLDEST_FIRST: Sort = [("_id", ASCENDING)]


def bson_id(raw: bytes) -> Binary:
    """Return an `_id` as the driver sends it."""
    return Binary(raw, USER_DEFINED)


def of_run(run: int, below: int = MOST) -> Filter:
    """Return the filter of a run's documents, up to a trigger."""
    return _between((run, LEAST), (run, below))


def of_stretch(run: int, first: int, last: int) -> Filter:
    """Return the filter of all documents of a stretch of triggers."""
    return _between((run, first), (run, last))


def stretches(keys: Array) -> list[tuple[int, int, int]]:
    """Put keys (`KEY`) together where no other can be between them: run, first and last trigger of each stretch."""
    keys = np.unique(keys)
    if not len(keys):
        return []
    apart = (np.diff(keys["run"]) != 0) | (np.diff(keys["trigger"]) != 1)
    begins = np.flatnonzero(np.concatenate([[True], apart])).tolist()
    return [
        (int(keys["run"][begin]), int(keys["trigger"][begin]), int(keys["trigger"][end - 1]))
        for begin, end in zip(begins, [*begins[1:], len(keys)], strict=True)
    ]


def of_triggers(keys: Array, server: Server) -> Iterator[Filter]:
    """Return the filters of all documents of triggers (`KEY`), which may find those of others, too."""
    found = stretches(keys)
    if not server.uses_indexes and len(found) > 1:
        # Whatever is asked, all there is is gone through: once is enough.
        yield _between(found[0][:2], (found[-1][0], found[-1][2]))
        return
    for start in range(0, len(found), STRETCHES):
        some = [of_stretch(*each) for each in found[start : start + STRETCHES]]
        yield some[0] if len(some) == 1 else {"$or": some}


def within(start_ns: int, end_ns: int) -> Filter:
    """Return the filter of documents of triggers with start_ns <= time_ns < end_ns."""
    return {"time_ns": {"$gte": Int64(start_ns), "$lt": Int64(end_ns)}}


def around(start_ns: int, end_ns: int) -> Filter:
    """Return the filter of documents of triggers that may have readings with start_ns <= time_ns < end_ns."""
    low, high = slack(start_ns, end_ns)
    return {"time_ns": {"$gte": Int64(low), "$lte": Int64(high)}}


def having(instruments: Sequence[int]) -> Filter:
    """Return the filter of documents with a reading of one of some instruments."""
    return {"missing": {"$bitsAnyClear": list(instruments)}}


def with_ids(ids: Array, at_once: int) -> Iterator[Filter]:
    """Return filters of documents by their `_id`s (void, shape (documents,))."""
    for start in range(0, len(ids), at_once):
        wanted = [bson_id(raw.tobytes()) for raw in ids[start : start + at_once]]
        yield {"_id": {"$in": wanted} if len(wanted) > 1 else wanted[0]}


async def batches(
    collection: Collection,
    filter_: Filter,
    width: int,
    sort: Sort = (),
    *,
    most: int = 0,
    enough: int = 0,
    fields: Mapping[str, int] | None = None,
) -> AsyncGenerator[bytes, None]:
    """Find documents; as they are, one after the other, in batches as they come.

    Args:
        collection: where.
        filter_: which.
        width: of the largest of them, about; bytes.
        sort: in which order.
        most: so many at most; 0 is all of them.
        enough: so many will perhaps do.
        fields: which of their fields, as a projection names them; None is all of them.

    """
    fitting = max(2, BATCH_BYTES // width)
    wanted = most or enough
    cursor = collection.find_raw_batches(
        filter_,
        projection=fields,
        sort=list(sort) or None,
        limit=most,
        batch_size=min(fitting, wanted + 1) if wanted else fitting,
    )
    async with cursor:
        async for batch in cursor:
            # Bytes, whatever the types of the driver say.
            yield cast("bytes", batch)


def _between(first: tuple[int, int], last: tuple[int, int]) -> Filter:
    return {"_id": {"$gte": bson_id(id_bytes(*first)), "$lte": bson_id(id_bytes(*last, LAST_PART))}}

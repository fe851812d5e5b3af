"""Reading documents back: what to look for, and batches of BSON that are parsed as they come."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from bson import Binary, Int64, ObjectId
from pymongo import ASCENDING, DESCENDING
from pymongo.asynchronous.collection import AsyncCollection

from backends.columns.stored import MISSING_OFFSET, SLACK_NS, slack
from backends.columns.windows import triggers_in_window
from backends.mongodb.protocol.documents import USER_DEFINED, DocumentFormat, figure_bytes, id_bytes
from backends.mongodb.server.facts import Server
from schemas.batch import Layout
from schemas.queries import InstrumentReadings, WindowReadings
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Period

Collection = AsyncCollection[dict[str, Any]]
Filter = dict[str, Any]
Sort = Sequence[tuple[str, int]]

BATCH_BYTES = 8 * 1024 * 1024
LOOKUPS = 5_000
"""So many `_id`s are looked up with one question."""
SINGLE_LOOKUPS = 20
"""So many `_id`s are looked up one by one where a server that has no use for indexes would else read everything."""

TRIGGERS = 100
"""So many triggers' readings, each a stretch of `_id`s, are looked for with one question."""

LATEST_FIRST: Sort = [("time_ns", DESCENDING)]
NEWEST_FIRST: Sort = [("_id", DESCENDING)]
OLDEST_FIRST: Sort = [("_id", ASCENDING)]
NEWEST_COMPLETE: tuple[Filter, Sort] = ({"complete": True}, [("run", DESCENDING), ("trigger_id", DESCENDING)])


def ledger_entry(trigger: int, run: int | None) -> tuple[Filter, Sort]:
    """Look for one trigger's ledger entry; of the newest run that has it when `run` is None."""
    if run is None:
        return {"trigger_id": Int64(trigger)}, [("run", DESCENDING)]
    return {"_id": ObjectId(id_bytes(run, trigger))}, []


def readings_of_trigger(run: int, trigger: int, layout: Layout) -> Filter:
    """Look for the readings of one trigger."""
    if layout is Layout.ARRAYS:
        return {"_id": ObjectId(id_bytes(run, trigger))}
    return _between(id_bytes(run, trigger, 0), id_bytes(run, trigger, 0xFFFF))


def of_run(run: int) -> Filter:
    """Look for ledger entries of one run."""
    return _between(id_bytes(run, -(2**63)), id_bytes(run, 2**63 - 1))


def neighbours(run: int, trigger: int) -> Iterator[tuple[Filter, Sort]]:
    """Look for the ledger entry of a run right below a trigger number, and for the one right above it."""
    yield _between(id_bytes(run, -(2**63)), id_bytes(run, trigger - 1)), NEWEST_FIRST
    yield _between(id_bytes(run, trigger + 1), id_bytes(run, 2**63 - 1)), OLDEST_FIRST


def skipped_triggers(start_ns: int, end_ns: int) -> Filter:
    """Look for the ledger entries of triggers that follow a gap."""
    return {"skipped": {"$gt": Int64(0)}, "time_ns": _times(start_ns, end_ns)}


def readings_of_triggers(run: int, triggers: Array, layout: Layout, server: Server) -> Iterator[Filter]:
    """Look for the readings of some triggers (int64, ascending), with several questions; they may find others, too."""
    if not server.uses_indexes and (layout is Layout.ROWS or len(triggers) > SINGLE_LOOKUPS):
        if len(triggers):
            first, last = int(triggers[0]), int(triggers[-1])
            ends = (None, None) if layout is Layout.ARRAYS else (0, 0xFFFF)
            yield _between(id_bytes(run, first, ends[0]), id_bytes(run, last, ends[1]))
        return
    at_once = 1 if not server.uses_indexes else LOOKUPS if layout is Layout.ARRAYS else TRIGGERS
    for start in range(0, len(triggers), at_once):
        some = triggers[start : start + at_once].tolist()
        if layout is Layout.ROWS:
            yield {"$or": [readings_of_trigger(run, trigger, layout) for trigger in some]}
        else:
            ids = [ObjectId(id_bytes(run, trigger)) for trigger in some]
            yield {"_id": {"$in": ids} if len(ids) > 1 else ids[0]}


def of_stretches(stretches: Array, layout: Layout) -> list[Filter]:
    """Look for the documents of stretches of triggers (run, first, last), one question each."""
    return [_from_to((run, first), (run, last), layout) for run, first, last in stretches.tolist()]


def _from_to(first: tuple[int, int], last: tuple[int, int], layout: Layout) -> Filter:
    ends = (None, None) if layout is Layout.ARRAYS else (0, 0xFFFF)
    return _between(id_bytes(*first, ends[0]), id_bytes(*last, ends[1]))


def in_stretches(stretches: Array, layout: Layout, server: Server) -> Iterator[Filter]:
    """Look for the documents of stretches of triggers, with several questions; they may find others, too."""
    if not server.uses_indexes and len(stretches):
        run, first, last = (stretches[name] for name in ("run", "first", "last"))
        yield _from_to((int(run.min()), int(first.min())), (int(run.max()), int(last.max())), layout)
        return
    filters = of_stretches(stretches, layout)
    for start in range(0, len(filters), TRIGGERS):
        yield {"$or": filters[start : start + TRIGGERS]}


def valid_of_instrument(instrument: int, start_ns: int, at_ns: int) -> Filter:
    """Look for one instrument's readings of a stretch, its end included, in the rows layout."""
    return {"instrument": instrument, "time_ns": {"$gte": Int64(start_ns), "$lte": Int64(at_ns)}}


def at_time(instrument: int, time_ns: int) -> Filter:
    """Look for one instrument's readings of one moment in the rows layout."""
    return {"instrument": instrument, "time_ns": Int64(time_ns)}


def readings_of_instrument(query: InstrumentReadings) -> tuple[Filter, Sort]:
    """Look for one instrument's readings in the rows layout, newest first."""
    times = _times(query.start_ns, query.end_ns)
    return {"instrument": query.instrument, "time_ns": times}, LATEST_FIRST


def readings_in_window(query: WindowReadings, layout: Layout, server: Server) -> Filter:
    """Look for a group's readings of a stretch of time; in the arrays layout for all triggers it may touch."""
    if layout is Layout.ARRAYS:
        return _first_to_last(*triggers_in_window(query))
    times = {"time_ns": _times(query.start_ns, query.end_ns)}
    # The index is by instrument and time: with all of them named it serves this question too.
    return {"instrument": {"$in": list(range(query.group.size))}, **times} if server.uses_indexes else times


def readings_of_period(period: Period, group: InstrumentGroup, layout: Layout, server: Server) -> Filter:
    """Look for the documents that lie within a period: readings by their own time, arrays by their trigger's."""
    within = WindowReadings(group=group, start_ns=period.start_ns, end_ns=period.end_ns, by_trigger=True)
    return readings_in_window(within, layout, server)


def figures_of_mark(mark: int) -> Filter:
    """Look for all figures of an attempt to reduce a period."""
    return _between(figure_bytes(mark, -(2**63)), figure_bytes(mark, 2**63 - 1, 0xFFFF, 0xFFFF_FFFF))


def figures_of_time(start_ns: int, end_ns: int, instrument: int | None = None) -> Filter:
    """Look for figures of buckets that begin within a stretch of time, of one instrument or of all."""
    times = {"time_ns": _times(start_ns, end_ns)}
    return times if instrument is None else {**times, "instrument": instrument}


def times_of(times: Array) -> Filter:
    """Look for documents between the first and the last of some times; int64, shape (n,), of at least one."""
    return _first_to_last(int(times.min()), int(times.max()))


def triggers_around(start_ns: int, end_ns: int) -> Filter:
    """Look for the triggers of the arrays layout that may have readings in a stretch of time."""
    return _first_to_last(*slack(start_ns, end_ns))


def _first_to_last(low: int, high: int) -> Filter:
    return {"time_ns": {"$gte": Int64(low), "$lte": Int64(high)}}


def triggers_with(instruments: Sequence[int], start_ns: int, last_ns: int) -> Filter:
    """Look for triggers up to `last_ns` that have one of some instruments, perhaps in a stretch from `start_ns` on."""
    there = [{f"time_offset_ns.{number}": {"$ne": Int64(MISSING_OFFSET)}} for number in instruments]
    return {"time_ns": {"$gte": Int64(max(start_ns - SLACK_NS, -(2**63))), "$lte": Int64(last_ns)}, "$or": there}


async def batches(
    collection: Collection,
    filter_: Filter,
    form: DocumentFormat,
    sort: Sort = (),
    most: int = 0,
    *,
    enough: int = 0,
    fields: Mapping[str, int] | None = None,
) -> AsyncGenerator[bytes, None]:
    """Find documents; as they are, one after the other, in batches as they come.

    most: so many at most, 0 is all of them.
    enough: so many will perhaps do.
    fields: which of their fields, as a projection names them; None is all of them.
    """
    fitting = max(2, BATCH_BYTES // form.width)
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


async def found(
    collection: Collection, filter_: Filter, form: DocumentFormat, sort: Sort = (), most: int = 0
) -> bytearray:
    """Find documents, all at once."""
    answer = bytearray()
    async for batch in batches(collection, filter_, form, sort, most):
        answer += batch
    return answer


async def by_ids(collection: Collection, ids: Array, form: DocumentFormat, server: Server) -> bytearray:
    """Find documents by their `_id`s (void, shape (documents,)), and perhaps others; those that are there."""
    if not server.uses_indexes and len(ids) > SINGLE_LOOKUPS:
        # Many are a repeat after a crash, and stand side by side.
        in_order = np.sort(ids)
        return await found(collection, _between(in_order[0].tobytes(), in_order[-1].tobytes()), form)
    answer = bytearray()
    for wanted in with_ids(ids, LOOKUPS if server.uses_indexes else 1):
        answer += await found(collection, wanted, form)
    return answer


def with_ids(ids: Array, at_once: int = LOOKUPS) -> Iterator[Filter]:
    """Look for documents by their `_id`s (void, shape (documents,)), with several questions."""
    for start in range(0, len(ids), at_once):
        wanted = [_bson_id(raw.tobytes()) for raw in ids[start : start + at_once]]
        yield {"_id": {"$in": wanted} if len(wanted) > 1 else wanted[0]}


def _between(first: bytes, last: bytes) -> Filter:
    return {"_id": {"$gte": _bson_id(first), "$lte": _bson_id(last)}}


def _bson_id(raw: bytes) -> Binary | ObjectId:
    return ObjectId(raw) if len(raw) == 12 else Binary(raw, USER_DEFINED)


def _times(start_ns: int, end_ns: int) -> dict[str, Int64]:
    return {"$gte": Int64(start_ns), "$lt": Int64(end_ns)}

"""Counting what is stored of a group.

There is no snapshot over several collections on a server of its own, so the account is read before and after, and the
look is repeated where it moved: what is committed between two questions is in one answer and not in the other.

A period that is being dropped is counted apart, by how far that is: before its account is written its documents are
there; from then on the account says how many there were, and of its documents only those count that are kept. What a
step of reducing has taken out is in the account, though it may still be there: such documents are named, and do not
count.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from bson import Int64

from backends.base import StoreBusy
from backends.mongodb.accounts import Account, account_of
from backends.mongodb.reading import documents
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.schema.create import GroupCollections
from backends.mongodb.server.facts import Database
from backends.mongodb.server.lease import position_in
from schemas.batch import JournalPosition, Layout, Stream
from schemas.decimation import Decimated
from schemas.queries import TOTALS
from schemas.readings import Array
from schemas.retention import Period

LOOKS = 3
"""So often at most; under a daemon that commits all the time none is still, and the answer says how much it moved."""


class Amount(NamedTuple):
    """How much an account says was committed."""

    triggers: int
    readings: int


async def totals(group: GroupReader) -> Array:
    """Count: `TOTALS`.

    Raises:
        StoreBusy: one period after the other is being dropped.
    """
    last = None
    for _ in range(LOOKS):
        found = await _look(group)
        last = last if found is None else found
        if found is not None and _is_still(found):
            break
    if last is None:
        raise StoreBusy(f"periods of group {group.of.data!r} are being dropped")
    return last


def _is_still(answer: Array) -> bool:
    """Whether nothing moved; a batch under way has its readings written before any of its ledger and its position."""
    moved = answer["moved_readings"].any() or answer["moved_triggers"].any()
    return bool(not moved and answer["triggers"].sum() == answer["account_triggers"][0])


async def _look(group: GroupReader) -> Array | None:
    """Count once; None where what is dropped was another when it ended."""
    database, of = group.database, group.of
    before = await account_of(database, of.data, of.layout)
    going = await _there(group, before.going_documents(of.layout))
    # A question for each sum: FerretDB 1 sums only the first of several.
    stored = Counter(await by_run(database, of.data, 1, _outside(before.dropping.values())))
    columns: dict[str, Mapping[int, int]] = {
        "stored": stored,
        "triggers": await by_run(database, of.ledger, 1),
        "expected": await by_run(database, of.ledger, "$expected"),
        "arrived": await by_run(database, of.ledger, "$arrived"),
        "skipped": await by_run(database, of.ledger, "$skipped"),
    }
    after = await _add_going(group, before, stored)
    if after is None or after.accounts.keys() - before.accounts.keys() - before.dropping.keys():
        return None
    still_going = await _there(group, after.going_documents(of.layout))
    columns["stored"] = stored - still_going
    columns["dropped"] = after.gone() - await _there(group, after.again_documents(of.layout))
    reduced = 0
    if before.steps != after.steps or going != still_going:
        reduced = after.reduced_rows - before.reduced_rows + going.total()
    runs = sorted({run for counts in columns.values() for run in counts})
    answer = np.zeros(max(1, len(runs)), TOTALS)
    _put_account(answer, before, after)
    answer["moved_triggers" if of.layout is Layout.ARRAYS else "moved_readings"] += reduced
    for row, run in zip(answer, runs, strict=False):
        row["run"] = run
        for name, counts in columns.items():
            row[name] = counts.get(run, 0)
        row["first_ns"] = await _end_ns(database, of, run, "first_ns", 1)
        row["last_ns"] = await _end_ns(database, of, run, "last_ns", -1)
    return answer


async def told(group: GroupReader, account: Account) -> tuple[Decimated, ...]:
    """What was reduced, without the documents that are there again; those of a period that was dropped are not."""
    figures = account.figures()
    nothing: Counter[int] = Counter()
    return tuple(
        [
            each.without(await _there(group, each.again) if key in figures else nothing)
            for key, each in account.reduced.items()
        ]
    )


async def _there(group: GroupReader, ids: Array) -> Counter[int]:
    """Count by run which of some documents of readings are there."""
    counts: Counter[int] = Counter()
    for some in documents.with_ids(ids):
        counts.update(await by_run(group.database, group.of.data, 1, some))
    return counts


async def _add_going(group: GroupReader, before: Account, stored: Counter[int]) -> Account | None:
    """Count what is there of periods that were being dropped; the account that goes with it, None without one."""
    for _ in range(LOOKS):
        found = await account_of(group.database, group.of.data, group.of.layout)
        counts = [await _inside(group, found, key, period) for key, period in before.dropping.items()]
        after = await account_of(group.database, group.of.data, group.of.layout)
        if all(_phase(found, key) == _phase(after, key) for key in before.dropping):
            for each in counts:
                stored.update(each)
            return after
    return None


def _phase(account: Account, key: str) -> tuple[bool, bool]:
    """How far a drop is: whether it is counted, and whether it has ended."""
    found = account.accounts.get(key)
    return found is not None, found is not None and found.dropped_ns is not None


async def _inside(group: GroupReader, account: Account, key: str, period: Period) -> Counter[int]:
    """Count by run what is there of a period, and is none of what its account has counted."""
    database, of = group.database, group.of
    if _phase(account, key) != (True, False):
        within = documents.readings_of_period(period, of.group, of.layout, group.server)
        return Counter(await by_run(database, of.data, 1, within))
    return Counter() if account.notice is None else await _there(group, account.notice.kept)


def _outside(periods: Collection[Period]) -> documents.Filter:
    """Look for documents of no such period."""
    apart = (
        [{"time_ns": {"$lt": Int64(each.start_ns)}}, {"time_ns": {"$gte": Int64(each.end_ns)}}] for each in periods
    )
    return {"$and": [{"$or": each} for each in apart]} if periods else {}


def _put_account(answer: Array, before: Account, after: Account) -> None:
    """Put the account of all streams, by how much it grew, and the position in that of the journal."""
    journal, amounts = position_in(after.position or {}), [_amount(each.position) for each in (before, after)]
    answer["sequence"], answer["journal_readings"] = journal.sequence, journal.readings
    answer["account_triggers"], answer["account_readings"] = amounts[1]
    answer["moved_triggers"] = amounts[1].triggers - amounts[0].triggers
    answer["moved_readings"] = amounts[1].readings - amounts[0].readings


def _amount(position: Mapping[str, Any] | None) -> Amount:
    streams: list[JournalPosition] = [position_in(position or {}, stream) for stream in Stream]
    return Amount(sum(each.triggers for each in streams), sum(each.readings for each in streams))


async def by_run(
    database: Database, collection: str, what: int | str, wanted: documents.Filter | None = None
) -> dict[int, int]:
    """Sum up something of the documents that are wanted, all of them by default, by run."""
    grouped: list[dict[str, Any]] = [{"$group": {"_id": "$run", "sum": {"$sum": what}}}]
    cursor = await database.get_collection(collection).aggregate([{"$match": wanted}, *grouped] if wanted else grouped)
    async with cursor:
        return {int(each["_id"]): int(each["sum"]) async for each in cursor}


async def ledger_sum(group: GroupReader, period: Period, spans: Array, what: int | str) -> int:
    """Sum up something of the ledger of a period's triggers, by the index of `_id`.

    spans: `STRETCH`, a row a run: they lie between these.
    """
    if not len(spans):
        return 0
    times = {"time_ns": {"$gte": Int64(period.start_ns), "$lt": Int64(period.end_ns)}}
    wanted = {"$or": documents.of_stretches(spans, Layout.ARRAYS), **times}
    return sum((await by_run(group.database, group.of.ledger, what, wanted)).values())


async def _end_ns(database: Database, of: GroupCollections, run: int, name: str, direction: int) -> int:
    """The time of a run's earliest or latest reading; 0 without any."""
    found = await database.get_collection(of.ledger).find_one(documents.of_run(run), sort=[(name, direction)])
    return int(found[name]) if found else 0

"""Counting what is stored of a group.

There is no snapshot over several collections on a server of its own, so the account is read before and after, and the
look is repeated where it moved: what is committed between two questions is in one answer and not in the other.
"""

from typing import Any, NamedTuple

import numpy as np
from bson import ObjectId

from backends.mongodb.protocol.documents import id_bytes
from backends.mongodb.schema.create import GroupCollections
from backends.mongodb.server.facts import Database
from backends.mongodb.server.lease import position_in
from schemas.batch import JournalPosition, Stream
from schemas.queries import TOTALS
from schemas.readings import Array

LOOKS = 3
"""So often at most; under a daemon that commits all the time none is still, and the answer says how much it moved."""


class Amount(NamedTuple):
    """How much an account says was committed."""

    triggers: int
    readings: int


async def totals(database: Database, of: GroupCollections) -> Array:
    """Count: `TOTALS`."""
    for _ in range(LOOKS):
        answer = await _look(database, of)
        if _is_still(answer, of):
            break
    return answer


def _is_still(answer: Array, of: GroupCollections) -> bool:
    """Whether nothing moved; a batch under way has its readings written before any of its ledger and its position."""
    return bool(not answer["moved_readings"].any() and answer["triggers"].sum() == answer["account_triggers"][0])


async def _look(database: Database, of: GroupCollections) -> Array:
    before, _ = await _account(database, of)
    # A question for each sum: FerretDB 1 sums only the first of several.
    columns = {
        "stored": await _by_run(database, of.data, 1),
        "triggers": await _by_run(database, of.ledger, 1),
        "expected": await _by_run(database, of.ledger, "$expected"),
        "arrived": await _by_run(database, of.ledger, "$arrived"),
        "skipped": await _by_run(database, of.ledger, "$skipped"),
    }
    after, journal = await _account(database, of)
    runs = sorted({run for counts in columns.values() for run in counts})
    answer = np.zeros(max(1, len(runs)), TOTALS)
    answer["sequence"], answer["journal_readings"] = journal.sequence, journal.readings
    answer["account_triggers"], answer["account_readings"] = after.triggers, after.readings
    answer["moved_triggers"] = after.triggers - before.triggers
    answer["moved_readings"] = after.readings - before.readings
    for row, run in zip(answer, runs, strict=False):
        row["run"] = run
        for name, counts in columns.items():
            row[name] = counts.get(run, 0)
        row["first_ns"] = await _end_ns(database, of, run, "first_ns", 1)
        row["last_ns"] = await _end_ns(database, of, run, "last_ns", -1)
    return answer


async def _account(database: Database, of: GroupCollections) -> tuple[Amount, JournalPosition]:
    """The account of all streams, and the position in that of the journal."""
    found = await database.get_collection("positions").find_one({"_id": of.data})
    streams = [position_in(found or {}, stream) for stream in Stream]
    account = Amount(sum(position.triggers for position in streams), sum(position.readings for position in streams))
    return account, position_in(found or {})


async def _by_run(database: Database, collection: str, what: int | str) -> dict[int, int]:
    grouped: list[dict[str, Any]] = [{"$group": {"_id": "$run", "sum": {"$sum": what}}}]
    cursor = await database.get_collection(collection).aggregate(grouped)
    async with cursor:
        return {int(each["_id"]): int(each["sum"]) async for each in cursor}


async def _end_ns(database: Database, of: GroupCollections, run: int, name: str, direction: int) -> int:
    """The time of a run's earliest or latest reading; 0 without any."""
    ids = {"$gte": ObjectId(id_bytes(run, -(2**63))), "$lte": ObjectId(id_bytes(run, 2**63 - 1))}
    found = await database.get_collection(of.ledger).find_one({"_id": ids}, sort=[(name, direction)])
    return int(found[name]) if found else 0

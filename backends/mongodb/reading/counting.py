"""Counting the documents of a group.

All numbers are made in one pass over the documents without their readings, which say themselves what is there and what
was dropped. There is no snapshot over it, so the account is read before and after, and the pass is repeated where it
moved.
"""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

import numpy as np

from backends.mongodb.protocol.triggers import Merged
from backends.mongodb.reading import documents
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.server.positions import newest_position, position_in
from schemas.batch import Layout, Stream
from schemas.queries import TOTALS
from schemas.readings import Array

LOOKS = 3
"""So often at most; under a daemon that commits all the time none is still, and the answer says how much it moved."""
SUMS = ("triggers", "expected", "arrived", "stored", "dropped")


class Amount(NamedTuple):
    """How much an account says was committed."""

    triggers: int
    readings: int


async def totals(group: GroupReader) -> Array:
    """Count: `TOTALS`."""
    before = await newest_position(group.database, group.of.data)
    for _ in range(LOOKS):
        runs = await count(group, {})
        after = await newest_position(group.database, group.of.data)
        answer = _answer(runs, before, after)
        # What was written and not committed yet is in no account.
        if _amount(before) == _amount(after) and answer["triggers"].sum() == answer["account_triggers"][0]:
            break
        before = after
    return answer


async def count(group: GroupReader, wanted: documents.Filter) -> dict[int, dict[str, int]]:
    """Count the triggers of a filter, by run: `SUMS`, the first and last trigger and time."""
    runs: dict[int, dict[str, int]] = {}
    async with aclosing(group.whole_ledger(wanted)) as found:
        async for some in found:
            for run in np.unique(some.rows["run"]).tolist():
                mine = some.rows["run"] == run
                counted = _counted(Merged(*(part[mine] for part in some)), group.of.layout)
                runs[run] = _added(runs[run], counted) if run in runs else counted
    return runs


def _counted(some: Merged, layout: Layout) -> dict[str, int]:
    arrived = int(some.rows["arrived"].sum(dtype=np.int64))
    if layout is Layout.ARRAYS:
        stored, whole = int(np.count_nonzero(some.is_stored)), len(some.rows)
    else:
        stored, whole = int(some.stored.sum()), arrived
    return {
        "triggers": len(some.rows),
        "expected": int(some.rows["expected"].sum(dtype=np.int64)),
        "arrived": arrived,
        "stored": stored,
        "dropped": whole - stored,
        "first": int(some.rows["trigger"][0]),
        "last": int(some.rows["trigger"][-1]),
        "first_ns": int(some.rows["first_ns"].min()),
        "last_ns": int(some.rows["last_ns"].max()),
    }


def _added(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    ends = {name: min(one[name], other[name]) for name in ("first", "first_ns")}
    ends |= {name: max(one[name], other[name]) for name in ("last", "last_ns")}
    return {**{name: one[name] + other[name] for name in SUMS}, **ends}


def skipped(counted: Mapping[str, int]) -> int:
    """Return how many numbers between the first and the last trigger have none."""
    return counted["last"] - counted["first"] + 1 - counted["triggers"]


def _answer(runs: Mapping[int, dict[str, int]], before: Mapping[str, Any], after: Mapping[str, Any]) -> Array:
    answer = np.zeros(max(1, len(runs)), TOTALS)
    journal, amounts = position_in(after), [_amount(each) for each in (before, after)]
    answer["sequence"], answer["journal_readings"] = journal.sequence, journal.readings
    answer["account_triggers"], answer["account_readings"] = amounts[1]
    answer["moved_triggers"] = amounts[1].triggers - amounts[0].triggers
    answer["moved_readings"] = amounts[1].readings - amounts[0].readings
    for row, run in zip(answer, sorted(runs), strict=False):
        row["run"], row["skipped"] = run, skipped(runs[run])
        for name in (*SUMS, "first_ns", "last_ns"):
            row[name] = runs[run][name]
    return answer


def _amount(position: Mapping[str, Any]) -> Amount:
    streams = [position_in(position, stream) for stream in Stream]
    return Amount(sum(each.triggers for each in streams), sum(each.readings for each in streams))

"""The queries of `schemas.queries`, answered by MongoDB; no document becomes a Python object by itself.

All numbers of documents are made in one pass over the documents without their readings, which say themselves what is
there and what was dropped. There is no snapshot over it, so the account is read before and after, and the pass is
repeated where it moved.
"""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

import numpy as np

from backends.base import AnswerTooLarge
from backends.columns.reductions import Newest, reducer_of
from backends.columns.stored import SLACK_NS
from backends.columns.windows import between, rows_to_know, triggers_in_window, within
from backends.mongodb.protocol.triggers import KEY, Merged, keys_of, once
from backends.mongodb.reading import documents
from backends.mongodb.reading.documents import LEAST, MOST
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.server.positions import newest_position, position_in
from backends.questions import Questions
from schemas.batch import Layout, Stream
from schemas.queries import (
    TOTALS,
    InstrumentReadings,
    Means,
    Reduction,
    SkippedTriggers,
    Snapshot,
    Totals,
    TriggersReadings,
    WindowReadings,
    answer_dtype,
)
from schemas.readings import Array


async def snapshot(group: GroupReader, query: Snapshot) -> Array:
    """Answer Snapshot; `answer_dtype(group)`, by instrument: back in time until no earlier trigger can say more."""
    newest = Newest(query)
    if query.within_ns < 1:
        return newest.found
    start_ns = max(query.at_ns - query.within_ns, LEAST - 1) + 1
    wanted = documents.around(start_ns, min(query.at_ns + 1, MOST))
    if not group.server.uses_indexes:
        # Whatever is asked, all there is is gone through: once is enough.
        await _back(group, newest, wanted, LEAST)
        return newest.found
    reached_ns = await _back(group, newest, wanted, query.at_ns - 2 * SLACK_NS)
    unsettled = newest.missing(reached_ns + SLACK_NS)
    if unsettled and reached_ns > LEAST:
        # What is still to be found may be dead for long: from here on only triggers that have it are read.
        wanted["time_ns"]["$lte"] = reached_ns
        await _back(group, newest, {**wanted, **documents.having(unsettled)}, LEAST)
    return newest.found


async def _back(group: GroupReader, newest: Newest, wanted: documents.Filter, enough_ns: int) -> int:
    """Take readings until all are settled or from before `enough_ns`; return up to which time, or LEAST for all."""
    async with aclosing(group.chunks(wanted, documents.LATEST_FIRST)) as chunks:
        async for earliest_ns, readings in chunks:
            newest.add(readings)
            if earliest_ns < enough_ns or not newest.missing(earliest_ns + SLACK_NS):
                return earliest_ns
    return LEAST


CANDIDATES = 20
"""So many triggers are tried at a time that a document calls complete."""


class MongodbQuestions(Questions):
    """Answers questions about one group."""

    def __init__(self, group: GroupReader) -> None:
        self._group = group

    async def _totals(self, _query: Totals) -> Array:
        return await totals(self._group)

    async def _figures(self, query: Reduction) -> Array:
        # Made here, of readings that come in chunks: docs/decisions/0030.
        wanted = documents.around(query.start_ns, query.end_ns) if isinstance(query, Means) else {}
        reducer = reducer_of(query)
        async with aclosing(self._group.chunks(wanted)) as chunks:
            async for _, readings in chunks:
                reducer.add(readings)
        return reducer.answer()

    async def _newest_complete(self) -> Array:
        # By a late reading's document, too; it is said again by all documents of the trigger.
        newest = [("run", -1), ("trigger_id", -1)]
        async with aclosing(self._group.heads({"complete": True}, newest, enough=CANDIDATES)) as found:
            async for heads in found:
                rows = await self._group.ledger_of(keys_of(heads["row"]))
                rows = rows[rows["arrived"] == rows["expected"]]
                if len(rows):
                    return np.asarray(rows[-1:])
        return self._group.no_ledger()

    async def _ledger_row(self, trigger: int, run: int | None) -> Array:
        if run is None:
            heads = await self._group.all_heads({"trigger_id": trigger}, [("run", -1)], 1)
            if not len(heads):
                return self._group.no_ledger()
            run = int(heads["row"]["run"][0])
        return await self._ledger_rows(run, np.array([trigger]))

    async def _ledger_tail(self, most: int, run: int | None) -> Array:
        wanted = {} if run is None else documents.of_run(run)
        rows = await self._group.ledger_end(wanted, documents.NEWEST_FIRST, most)
        # Those of the newest run come last, and no more than were asked for can be there.
        return np.asarray(rows[rows["run"] == rows["run"][-1:]])

    async def _ledger_ends(self) -> Array:
        last = await self._group.ledger_end({}, documents.NEWEST_FIRST)
        if not len(last):
            return last
        first = await self._group.ledger_end(documents.of_run(int(last["run"][0])), documents.OLDEST_FIRST)
        return last if first["trigger"][0] == last["trigger"][0] else np.concatenate([first, last])

    async def _ledger_rows(self, run: int, triggers: Array) -> Array:
        return await self._group.ledger_of(_keys(run, triggers))

    async def _skipped(self, query: SkippedTriggers) -> Array:
        wanted, most = {"skipped": {"$gt": 0}, **documents.within(query.start_ns, query.end_ns)}, query.most
        while True:
            heads = await self._group.all_heads(wanted, documents.LATEST_FIRST, most)
            rows = await self._group.ledger_of(keys_of(heads["row"]))
            for row in rows:
                below = documents.of_run(int(row["run"]), int(row["trigger"]) - 1)
                highest = await self._group.ledger_end(below, documents.NEWEST_FIRST)
                row["skipped"] = row["trigger"] - highest["trigger"][0] - 1 if len(highest) else 0
            found = rows[rows["skipped"] > 0]
            if len(found) >= query.most or len(heads) < most:
                return np.asarray(found[np.argsort(-found["time_ns"], kind="stable")][: query.most])
            most *= 2

    async def _trigger(self, row: Array) -> Array:
        run, trigger = int(row["run"][0]), int(row["trigger"][0])
        return await self._group.readings(documents.of_stretch(run, trigger, trigger))

    async def _instrument(self, query: InstrumentReadings) -> Array:
        parts, count = [np.empty(0, answer_dtype(query.group))], 0
        if query.most < 1:
            return parts[0]
        wanted = documents.around(query.start_ns, query.end_ns)
        async with aclosing(self._group.chunks(wanted, documents.LATEST_FIRST)) as chunks:
            async for earliest_ns, readings in chunks:
                mine = readings[readings["instrument"] == query.instrument]
                parts.append(between(mine, query.start_ns, query.end_ns))
                count += len(parts[-1])
                # Those to come belong to earlier triggers, but may themselves be later by the slack.
                if count >= query.most and earliest_ns + SLACK_NS < _newest_of(parts, query.most):
                    break
        found = once(np.concatenate(parts))
        return np.asarray(found[np.argsort(found["time_ns"], kind="stable")][max(0, len(found) - query.most) :])

    async def _window(self, query: WindowReadings) -> Array:
        low, high = triggers_in_window(query)
        wanted = {"time_ns": {"$gte": low, "$lte": high}}
        most, parts = rows_to_know(query, Layout.ARRAYS), [np.empty(0, answer_dtype(query.group))]
        triggers = np.empty(0, KEY)
        async with aclosing(self._group.chunks(wanted)) as chunks:
            async for _, readings in chunks:
                parts.append(readings)
                if most is not None:
                    triggers = np.union1d(triggers, keys_of(readings))
                    if len(triggers) >= most:
                        raise AnswerTooLarge(query.most or 0)
        return within(once(np.concatenate(parts)), query, Layout.ARRAYS)

    async def _triggers(self, query: TriggersReadings) -> Array:
        keys, parts = _keys(query.run, np.array(query.triggers, np.int64)), [np.empty(0, answer_dtype(query.group))]
        for wanted in documents.of_triggers(keys, self._group.server) if len(keys) else ():
            async with aclosing(self._group.chunks(wanted)) as chunks:
                async for _, readings in chunks:
                    # Where there is no index to use, all between the first and the last of them are gone through.
                    parts.append(readings[np.isin(keys_of(readings), keys)])
        return once(np.concatenate(parts))

    async def _snapshot(self, query: Snapshot) -> Array:
        return await snapshot(self._group, query)


def _keys(run: int, triggers: Array) -> Array:
    keys = np.empty(len(triggers), KEY)
    keys["run"], keys["trigger"] = run, triggers
    return keys


def _newest_of(parts: list[Array], most: int) -> int:
    """Return the time of the earliest of the `most` newest readings."""
    return int(np.sort(np.concatenate([part["time_ns"] for part in parts]))[-most])


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

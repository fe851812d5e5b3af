"""The queries of `schemas.queries`, answered by MongoDB; no document becomes a Python object by itself."""

from contextlib import aclosing

import numpy as np

from backends.base import AnswerTooLarge
from backends.columns.reductions import Newest, reducer_of
from backends.columns.stored import SLACK_NS
from backends.columns.windows import between, rows_to_know, triggers_in_window, within
from backends.mongodb.protocol.triggers import KEY, keys_of, once
from backends.mongodb.reading import documents
from backends.mongodb.reading.counting import totals
from backends.mongodb.reading.documents import LEAST, MOST
from backends.mongodb.reading.group import GroupReader
from backends.questions import Questions
from schemas.batch import Layout
from schemas.queries import (
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

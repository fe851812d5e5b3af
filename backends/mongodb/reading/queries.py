"""The questions of `schemas.queries`, asked of MongoDB; no document becomes a Python object by itself."""

from contextlib import aclosing

import numpy as np

from backends.columns.reductions import reducer_of
from backends.columns.stored import SLACK_NS
from backends.columns.windows import between, in_order, rows_to_know, see_not_too_large, within
from backends.mongodb.accounts import going_documents
from backends.mongodb.protocol.documents import keys_of
from backends.mongodb.protocol.formats import arrays_format
from backends.mongodb.reading import documents, reduced
from backends.mongodb.reading.counting import totals
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.reading.snapshot import snapshot
from backends.questions import Questions
from schemas.batch import Layout
from schemas.queries import (
    Figures,
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


class MongodbQuestions(Questions):
    """Answers questions about one group."""

    def __init__(self, group: GroupReader) -> None:
        self._group = group

    async def _totals(self, _query: Totals) -> Array:
        return await totals(self._group)

    async def _figures(self, query: Reduction) -> Array:
        if isinstance(query, Means):
            return await reduced.answer(self._group, query, self._raw)
        return await self._raw(query)

    async def figures(self, query: Figures) -> Array:
        """Answer `Figures`."""
        return await reduced.answer(self._group, query, self._raw)

    async def _raw(self, query: Reduction) -> Array:
        # Made here, of readings that come in chunks: docs/decisions/0030.
        wanted: documents.Filter = {}
        going: Array | None = None
        if isinstance(query, Means):
            going = await self._going()
            within = WindowReadings(group=query.group, start_ns=query.start_ns, end_ns=query.end_ns)
            wanted = documents.readings_in_window(within, self._group.of.layout, self._group.server)
        reducer = reducer_of(query)
        async with aclosing(self._group.chunks(wanted, without=going)) as chunks:
            async for readings in chunks:
                reducer.add(readings)
        return reducer.answer()

    async def _newest_complete(self) -> Array:
        return await self._group.ledger(*documents.NEWEST_COMPLETE)

    async def _ledger_row(self, trigger: int, run: int | None) -> Array:
        return await self._group.ledger(*documents.ledger_entry(trigger, run))

    async def _ledger_tail(self, most: int, run: int | None) -> Array:
        rows = await self._group.ledger({} if run is None else documents.of_run(run), documents.NEWEST_FIRST, most)
        # Those of the newest run come first, and no more than asked for can be there.
        return np.asarray(rows[rows["run"] == rows["run"][:1]][::-1])

    async def _ledger_ends(self) -> Array:
        last = await self._group.ledger({}, documents.NEWEST_FIRST)
        if not len(last):
            return last
        first = await self._group.ledger(documents.of_run(int(last["run"][0])), documents.OLDEST_FIRST)
        return last if first["trigger"][0] == last["trigger"][0] else np.concatenate([first, last])

    async def _ledger_rows(self, run: int, triggers: Array) -> Array:
        return await self._group.ledger_of_triggers(run, triggers)

    async def _ledger_neighbours(self, run: int, trigger: int) -> Array:
        return np.concatenate([await self._group.ledger(*each) for each in documents.neighbours(run, trigger)])

    async def _skipped(self, query: SkippedTriggers) -> Array:
        wanted = documents.skipped_triggers(query.start_ns, query.end_ns)
        return await self._group.ledger(wanted, documents.LATEST_FIRST, query.most)

    async def _trigger(self, row: Array) -> Array:
        run, trigger = int(row["run"][0]), int(row["trigger"][0])
        wanted = documents.readings_of_trigger(run, trigger, self._group.of.layout)
        return in_order(await self._group.readings(wanted))

    async def _instrument(self, query: InstrumentReadings) -> Array:
        if query.most < 1:
            return np.empty(0, answer_dtype(query.group))
        going = await self._going()
        if self._group.of.layout is Layout.ARRAYS:
            return await _elements(self._group, query, going)
        own = int(np.count_nonzero(keys_of(going)["instrument"] == query.instrument))
        filter_, sort = documents.readings_of_instrument(query)
        found = await self._group.found(filter_, sort, query.most + own)
        return self._group.decoded(found, going)[: query.most][::-1]

    async def _window(self, query: WindowReadings) -> Array:
        layout = self._group.of.layout
        wanted = documents.readings_in_window(query, layout, self._group.server)
        going = await self._going()
        found = await self._group.found(wanted, most=rows_to_know(query, layout) or 0)
        readings = self._group.decoded(found)
        see_not_too_large(readings, query, layout)
        if len(going):
            readings = self._group.decoded(found, going)
        return in_order(within(readings, query, layout))

    async def _going(self) -> Array:
        """`_id`s of what was reduced before the question, and is perhaps still there.

        Of questions that are put beside figures: what is in these is then not found as a reading as well. And of means:
        of what is every n-th trigger by now there are no figures.
        """
        return await going_documents(self._group.database, self._group.of.data, self._group.of.layout)

    async def _triggers(self, query: TriggersReadings) -> Array:
        parts = [np.empty(0, answer_dtype(query.group))]
        triggers = np.unique(np.array(query.triggers, np.int64))
        for wanted in documents.readings_of_triggers(query.run, triggers, self._group.of.layout, self._group.server):
            async with aclosing(self._group.chunks(wanted)) as chunks:
                async for readings in chunks:
                    # Where there is no index to use, all between the first and the last of them are gone through.
                    mine = np.isin(readings["trigger"], triggers)
                    parts.append(readings if mine.all() else readings[mine])
        return in_order(np.concatenate(parts))

    async def _snapshot(self, query: Snapshot) -> Array:
        return await snapshot(self._group, query)


async def _elements(group: GroupReader, query: InstrumentReadings, going: Array) -> Array:
    """One instrument's readings from whole documents, which come newest first until there are enough."""
    form, parts, count = arrays_format(group.of.group), [np.empty(0, answer_dtype(group.of.group))], 0
    triggers = documents.triggers_around(query.start_ns, query.end_ns)
    whole = documents.batches(group.data, triggers, form, documents.LATEST_FIRST, enough=query.most)
    async with aclosing(whole) as batches:
        async for batch in batches:
            readings = group.decoded(batch, going)
            mine = readings[readings["instrument"] == query.instrument]
            parts.append(between(mine, query.start_ns, query.end_ns))
            count += len(parts[-1])
            # Those to come belong to earlier triggers, but may themselves be later by the slack.
            if count >= query.most and _is_past(parts, form.columns(form.parse(batch))["time_ns"], query.most):
                break
    found = np.concatenate(parts)
    return np.asarray(found[np.argsort(found["time_ns"], kind="stable")][max(0, len(found) - query.most) :])


def _is_past(parts: list[Array], triggers_ns: Array, most: int) -> bool:
    """Whether no trigger earlier than these can have one of the `most` newest readings."""
    times = np.sort(np.concatenate([part["time_ns"] for part in parts]))
    return bool(int(triggers_ns.min()) + SLACK_NS < int(times[-most]))

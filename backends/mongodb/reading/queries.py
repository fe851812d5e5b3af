"""The questions of `schemas.queries`, asked of MongoDB; no document becomes a Python object by itself."""

from contextlib import aclosing

import numpy as np

from backends.columns.reductions import reducer_of
from backends.columns.stored import SLACK_NS
from backends.columns.windows import between, in_order, rows_to_know, see_not_too_large
from backends.mongodb.protocol.formats import arrays_format, decode_readings
from backends.mongodb.reading import reading
from backends.mongodb.reading.counting import totals
from backends.mongodb.reading.pieces import Asked
from backends.mongodb.reading.snapshot import snapshot
from schemas.batch import Layout
from schemas.queries import (
    Aggregate,
    InstrumentReadings,
    LedgerEnds,
    LedgerRow,
    LedgerTail,
    Means,
    NewestTrigger,
    Query,
    Reduction,
    Snapshot,
    Totals,
    TriggerReadings,
    TriggersReadings,
    WindowReadings,
    answer_dtype,
)
from schemas.readings import Array

_OfLedger = LedgerRow | LedgerTail | LedgerEnds
_OfReadings = NewestTrigger | TriggerReadings | InstrumentReadings | WindowReadings | TriggersReadings | Snapshot


async def answer(asked: Asked, query: Query) -> Array:
    """Answer a question."""
    match query:
        case Totals():
            return await totals(asked.database, asked.of)
        case Means() | Aggregate():
            return await _figures(asked, query)
        case LedgerRow() | LedgerTail() | LedgerEnds():
            return await _of_ledger(asked, query)
        case _:
            return await _of_readings(asked, query)


async def _of_ledger(asked: Asked, query: _OfLedger) -> Array:
    match query:
        case LedgerRow():
            return await asked.ledger(*reading.ledger_entry(query.trigger, query.run))
        case LedgerTail():
            rows = await asked.ledger({}, reading.NEWEST_FIRST, query.most)
            # Those of the newest run come first, and no more than asked for can be there.
            return np.asarray(rows[rows["run"] == rows["run"][:1]][::-1])
        case LedgerEnds():
            last = await asked.ledger({}, reading.NEWEST_FIRST)
            if not len(last):
                return last
            first = await asked.ledger(reading.of_run(int(last["run"][0])), reading.OLDEST_FIRST)
            return last if first["trigger"][0] == last["trigger"][0] else np.concatenate([first, last])


async def _of_readings(asked: Asked, query: _OfReadings) -> Array:
    match query:
        case NewestTrigger():
            return await _trigger(asked, await asked.ledger(*reading.NEWEST_COMPLETE))
        case TriggerReadings():
            return await _trigger(asked, await asked.ledger(*reading.ledger_entry(query.trigger, query.run)))
        case InstrumentReadings():
            return await _instrument(asked, query)
        case WindowReadings():
            return await _in_window(asked, query)
        case TriggersReadings():
            return await _triggers(asked, query)
        case Snapshot():
            return await snapshot(asked, query)


async def _trigger(asked: Asked, entry: Array) -> Array:
    if not len(entry):
        return np.empty(0, answer_dtype(asked.of.group))
    run, trigger = int(entry["run"][0]), int(entry["trigger"][0])
    return in_order(await asked.readings(reading.readings_of_trigger(run, trigger, asked.of.layout)))


async def _in_window(asked: Asked, query: WindowReadings) -> Array:
    wanted = reading.readings_in_window(query, asked.of.layout, asked.server)
    readings = await asked.readings(wanted, most=rows_to_know(query, asked.of.layout) or 0)
    see_not_too_large(readings, query, asked.of.layout)
    return in_order(between(readings, query.start_ns, query.end_ns))


async def _instrument(asked: Asked, query: InstrumentReadings) -> Array:
    if query.most < 1:
        return np.empty(0, answer_dtype(asked.of.group))
    if asked.of.layout is Layout.ARRAYS:
        return await _elements(asked, query)
    filter_, sort = reading.readings_of_instrument(query)
    return (await asked.readings(filter_, sort, query.most))[::-1]


async def _elements(asked: Asked, query: InstrumentReadings) -> Array:
    """One instrument's readings from whole documents, which come newest first until there are enough."""
    form, parts, count = arrays_format(asked.of.group), [np.empty(0, answer_dtype(asked.of.group))], 0
    triggers = reading.triggers_around(query.start_ns, query.end_ns)
    whole = reading.batches(asked.data, triggers, form, reading.LATEST_FIRST, enough=query.most)
    async with aclosing(whole) as batches:
        async for batch in batches:
            readings = decode_readings(batch, asked.of.group, asked.of.layout)
            mine = readings[readings["instrument"] == query.instrument]
            parts.append(between(mine, query.start_ns, query.end_ns))
            count += len(parts[-1])
            # Those to come belong to earlier triggers, but may themselves be later by the slack.
            if count >= query.most and _is_past(parts, form.columns(form.parse(batch))["time_ns"], query.most):
                break
    found = np.concatenate(parts)
    return np.asarray(found[np.argsort(found["time_ns"], kind="stable")][max(0, len(found) - query.most) :])


async def _triggers(asked: Asked, query: TriggersReadings) -> Array:
    parts = [np.empty(0, answer_dtype(asked.of.group))]
    triggers = np.unique(np.array(query.triggers, np.int64))
    for wanted in reading.readings_of_triggers(query.run, triggers, asked.of.layout, asked.server):
        async with aclosing(asked.pieces(wanted)) as pieces:
            async for readings in pieces:
                # Where there is no index to use, all between the first and the last of them are gone through.
                mine = np.isin(readings["trigger"], triggers)
                parts.append(readings if mine.all() else readings[mine])
    return in_order(np.concatenate(parts))


async def _figures(asked: Asked, query: Reduction) -> Array:
    """Means or aggregates, made here of readings that come in pieces: docs/decisions/0030."""
    wanted: reading.Filter = {}
    if isinstance(query, Means):
        within = WindowReadings(group=query.group, start_ns=query.start_ns, end_ns=query.end_ns)
        wanted = reading.readings_in_window(within, asked.of.layout, asked.server)
    reducer = reducer_of(query)
    async with aclosing(asked.pieces(wanted)) as pieces:
        async for readings in pieces:
            reducer.add(readings)
    return reducer.answer()


def _is_past(parts: list[Array], triggers_ns: Array, most: int) -> bool:
    """Whether no trigger earlier than these can have one of the `most` newest readings."""
    times = np.sort(np.concatenate([part["time_ns"] for part in parts]))
    return bool(int(triggers_ns.min()) + SLACK_NS < int(times[-most]))

"""The questions of `schemas.queries`, asked of PostgreSQL."""

import math

import numpy as np

from backends.columns.windows import between, in_order, rows_to_know, see_not_too_large
from backends.postgresql.protocol import output
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.copy import decode_rows
from backends.postgresql.protocol.sql import compiled
from backends.postgresql.reading import figures
from backends.postgresql.reading.snapshot import snapshot
from backends.postgresql.reading.triggers import readings_of_triggers
from backends.sql import selects
from backends.sql.tables import GroupTables
from schemas.queries import (
    TOTALS,
    Aggregate,
    InstrumentReadings,
    LedgerEnds,
    LedgerRow,
    LedgerTail,
    Means,
    NewestTrigger,
    Query,
    Snapshot,
    Totals,
    TriggerReadings,
    TriggersReadings,
    WindowReadings,
    answer_dtype,
)
from schemas.readings import Array

_OfReadings = NewestTrigger | TriggerReadings | InstrumentReadings | WindowReadings | TriggersReadings | Snapshot


async def answer(connection: Connection, tables: GroupTables, query: Query) -> Array:
    """Answer a question; readings come as binary COPY and never become Python objects one by one."""
    match query:
        case Totals():
            return await _totals(connection, tables, query.within_s)
        case Means() | Aggregate():
            return await figures.answer(connection, tables, query)
        case LedgerRow() | LedgerTail() | LedgerEnds():
            return await _ledger(connection, tables, query)
        case _:
            return await _readings(connection, tables, query)


async def _ledger(connection: Connection, tables: GroupTables, query: LedgerRow | LedgerTail | LedgerEnds) -> Array:
    match query:
        case LedgerRow():
            return await output.ledger(connection, tables, selects.ledger_row(tables, query.trigger, query.run))
        case LedgerTail():
            return (await output.ledger(connection, tables, selects.ledger_tail(tables, query.most)))[::-1]
        case LedgerEnds():
            ends = await output.ledger(connection, tables, selects.ledger_ends(tables))
            return ends[np.unique(ends["trigger"], return_index=True)[1]]


async def _readings(connection: Connection, tables: GroupTables, query: _OfReadings) -> Array:
    match query:
        case NewestTrigger():
            row = await output.ledger(connection, tables, selects.newest_complete(tables))
            return await _trigger(connection, tables, row)
        case TriggerReadings():
            found = selects.ledger_row(tables, query.trigger, query.run)
            return await _trigger(connection, tables, await output.ledger(connection, tables, found))
        case InstrumentReadings():
            found = selects.readings_of_instrument(tables, query)
            return decode_rows(await output.copied(connection, found), tables.group)[::-1]
        case WindowReadings():
            found = selects.readings_in_window(tables, query, rows_to_know(query, tables.layout))
            readings = await output.readings(connection, tables, found)
            see_not_too_large(readings, query, tables.layout)
            within = between(readings, query.start_ns, query.end_ns)
            return within if query.most is None else in_order(within)
        case TriggersReadings():
            return await readings_of_triggers(connection, tables, query)
        case Snapshot():
            return await snapshot(connection, tables, query)


async def _trigger(connection: Connection, tables: GroupTables, row: Array) -> Array:
    if not len(row):
        return np.empty(0, answer_dtype(tables.group))
    # Two steps, so that the times are constants to the planner: it then touches no partition but theirs.
    found = selects.readings_of_trigger(
        tables,
        run=int(row["run"][0]),
        trigger=int(row["trigger"][0]),
        time_ns=int(row["time_ns"][0]),
        first_ns=int(row["first_ns"][0]),
        last_ns=int(row["last_ns"][0]),
    )
    return await output.readings(connection, tables, found)


async def _totals(connection: Connection, tables: GroupTables, within_s: float) -> Array:
    async with connection.transaction(readonly=True):
        # Given up here, it would go on there.
        await connection.execute(f"SET LOCAL statement_timeout = {math.ceil(1000 * within_s)}")
        rows = await connection.fetch(compiled(selects.totals(tables)))
    return np.array([(*row, 0, 0) for row in rows], TOTALS)

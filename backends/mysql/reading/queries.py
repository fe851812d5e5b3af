"""The questions of `schemas.queries`, asked of MariaDB and MySQL."""

import math

import numpy as np
import sqlalchemy as sa

from backends.columns.windows import between, in_order, rows_to_know, see_not_too_large
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import read_arrays, read_elements, read_ledger, read_rows
from backends.mysql.protocol.sql import compiled, quoted
from backends.mysql.reading.figures import figures
from backends.mysql.reading.snapshot import snapshot
from backends.mysql.reading.triggers import readings_of_triggers
from backends.mysql.schema.tables import COMPLETE
from backends.mysql.schema.view import integer, picked
from backends.mysql.server.server import product_of
from backends.sql import selects
from backends.sql.tables import MISSING_OFFSET, STORED_DTYPES, GroupTables
from schemas.batch import Layout
from schemas.ledger import ledger_dtype
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

_Readings = NewestTrigger | TriggerReadings | InstrumentReadings | WindowReadings | TriggersReadings | Snapshot


async def answer(connection: Connection, tables: GroupTables, query: Query) -> Array:
    """Answer a question; readings come in the binary protocol and never become Python objects one by one."""
    match query:
        case Totals():
            return await _totals(connection, tables, query.within_s)
        case Means() | Aggregate():
            return await figures(connection, tables, query)
        case LedgerRow() | LedgerTail() | LedgerEnds():
            return await _of_ledger(connection, tables, query)
        case _:
            return await _of_readings(connection, tables, query)


async def _of_ledger(connection: Connection, tables: GroupTables, query: LedgerRow | LedgerTail | LedgerEnds) -> Array:
    match query:
        case LedgerRow():
            return await _ledger_row(connection, tables, query)
        case LedgerTail():
            return (await _ledger(connection, tables, selects.ledger_tail(tables, query.most)))[::-1]
        case LedgerEnds():
            return await _ledger_ends(connection, tables)


async def _of_readings(connection: Connection, tables: GroupTables, query: _Readings) -> Array:
    match query:
        case NewestTrigger():
            return await _trigger(connection, tables, await _ledger(connection, tables, _newest_complete(tables)))
        case TriggerReadings():
            found = selects.ledger_row(tables, query.trigger, query.run)
            return await _trigger(connection, tables, await _ledger(connection, tables, found))
        case InstrumentReadings():
            return await _of_instrument(connection, tables, query)
        case WindowReadings():
            return await _in_window(connection, tables, query)
        case TriggersReadings():
            return await readings_of_triggers(connection, tables, query)
        case Snapshot():
            return await snapshot(connection, tables, query)


async def _in_window(connection: Connection, tables: GroupTables, query: WindowReadings) -> Array:
    # Putting them in order is cheaper here than there.
    found = selects.readings_in_window(tables, query, rows_to_know(query, tables.layout)).order_by(None)
    readings = await _readings(connection, tables, found)
    see_not_too_large(readings, query, tables.layout)
    return between(in_order(readings), query.start_ns, query.end_ns)


def _newest_complete(tables: GroupTables) -> sa.Select[tuple[object, ...]]:
    """The ledger row of the newest trigger with every instrument there, by the index made for it."""
    ledger = tables.ledger.c
    return (
        sa.select(*selects.ledger_columns(tables))
        .where(sa.literal_column(quoted(COMPLETE)) == 1)
        .order_by(ledger.run.desc(), ledger.trigger_id.desc())
        .limit(1)
    )


async def _ledger(connection: Connection, tables: GroupTables, select: sa.Select[tuple[object, ...]]) -> Array:
    return read_ledger(await connection.select(compiled(select)), tables.group.size)


async def _ledger_row(connection: Connection, tables: GroupTables, query: LedgerRow) -> Array:
    if query.run is not None:
        return await _ledger(connection, tables, selects.ledger_row(tables, query.trigger, query.run))
    # The key begins with the run. There are few, and their list is found by skipping from one to the next.
    ledger = tables.ledger.c
    runs = [run for (run,) in await connection.fetch(compiled(sa.select(ledger.run).distinct()))]
    if not runs:
        return np.empty(0, ledger_dtype(tables.group.size))
    found = sa.select(*selects.ledger_columns(tables)).where(ledger.run.in_(runs), ledger.trigger_id == query.trigger)
    return await _ledger(connection, tables, found.order_by(ledger.run.desc()).limit(1))


async def _ledger_ends(connection: Connection, tables: GroupTables) -> Array:
    last = await _ledger(connection, tables, selects.ledger_tail(tables, 1))
    if not len(last):
        return last
    ledger = tables.ledger.c
    of_run = sa.select(*selects.ledger_columns(tables)).where(ledger.run == int(last["run"][0]))
    first = await _ledger(connection, tables, of_run.order_by(ledger.trigger_id).limit(1))
    return last if first["trigger"][0] == last["trigger"][0] else np.concatenate([first, last])


async def _readings(connection: Connection, tables: GroupTables, select: sa.Select[tuple[object, ...]]) -> Array:
    read = read_arrays if tables.layout is Layout.ARRAYS else read_rows
    return read(await connection.select(compiled(select)), tables.group)


async def _trigger(connection: Connection, tables: GroupTables, row: Array) -> Array:
    if not len(row):
        return np.empty(0, answer_dtype(tables.group))
    found = selects.readings_of_trigger(
        tables,
        run=int(row["run"][0]),
        trigger=int(row["trigger"][0]),
        time_ns=int(row["time_ns"][0]),
        first_ns=int(row["first_ns"][0]),
        last_ns=int(row["last_ns"][0]),
    )
    return in_order(await _readings(connection, tables, found.order_by(None)))


async def _of_instrument(connection: Connection, tables: GroupTables, query: InstrumentReadings) -> Array:
    if tables.layout is Layout.ROWS:
        return (await _readings(connection, tables, selects.readings_of_instrument(tables, query)))[::-1]
    packets = await connection.select(elements_of_instrument(tables, query))
    return read_elements(packets, tables.group, query.instrument)[::-1]


def elements_of_instrument(tables: GroupTables, query: InstrumentReadings) -> str:
    """Select one instrument's readings out of the arrays, newest first; their bytes are picked out by the server."""
    number = str(query.instrument)
    low, high = selects.slack(query.start_ns, query.end_ns)
    reading_ns = f"(time_ns + {integer('time_offset_ns', number, 8)})"
    channels = (
        picked(quoted(channel.name), number, int(STORED_DTYPES[channel.dtype][-1])) for channel in tables.group.channels
    )
    offset = picked("time_offset_ns", number, 8)
    missing = MISSING_OFFSET.to_bytes(8, "little", signed=True).hex()
    return (
        f"SELECT run, trigger_id, time_ns, {', '.join([offset, *channels])}"
        f" FROM {quoted(str(tables.data.schema), tables.data.name)}"
        f" WHERE time_ns BETWEEN {low} AND {high} AND {offset} <> x'{missing}'"
        f" AND {reading_ns} >= {query.start_ns} AND {reading_ns} < {query.end_ns}"
        f" ORDER BY {reading_ns} DESC LIMIT {query.most}"
    )


async def _totals(connection: Connection, tables: GroupTables, within_s: float) -> Array:
    # Given up here, it would go on there.
    text = compiled(selects.totals(tables))
    if product_of(connection.version).backend == "mariadb":
        text = f"SET STATEMENT max_statement_time = {within_s} FOR {text}"
    else:
        text = text.replace("SELECT", f"SELECT /*+ MAX_EXECUTION_TIME({math.ceil(1000 * within_s)}) */", 1)
    return np.array([(*row, 0, 0) for row in await connection.fetch(text)], TOTALS)

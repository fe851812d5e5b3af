"""The readings of many triggers: their ledger rows first, whose times say where in the table the readings are."""

from collections.abc import Iterator

import numpy as np

from backends.mysql.connection import Connection
from backends.mysql.records import read_arrays, read_ledger, read_rows
from backends.mysql.sql import quoted
from schemas import selects
from schemas.batch import Layout
from schemas.queries import TriggersReadings, answer_dtype
from schemas.readings import Array
from schemas.tables import GroupTables

LEDGER_ROWS = 2000
"""So many triggers are looked up in the ledger with one question."""
TRIGGERS = 200
"""So many triggers' readings are asked for with one question."""


async def readings_of_triggers(connection: Connection, tables: GroupTables, query: TriggersReadings) -> Array:
    """Answer TriggersReadings; `answer_dtype(group)`, by trigger and instrument."""
    parts = [np.empty(0, answer_dtype(tables.group))]
    wanted = np.unique(np.array(query.triggers, np.int64))
    for some in _chunks(wanted, LEDGER_ROWS):
        found = await connection.select(ledger_of_triggers(tables, query.run, some))
        ledger = read_ledger(found, tables.group.size)
        parts += [await _readings(connection, tables, rows) for rows in _chunks(ledger, TRIGGERS)]
    return np.concatenate(parts)


def ledger_of_triggers(tables: GroupTables, run: int, triggers: Array) -> str:
    """Select the ledger rows of some triggers, at least one, by their number."""
    columns = ", ".join(quoted(column.name) for column in selects.ledger_columns(tables))
    numbers = ",".join(map(str, triggers.tolist()))
    return (
        f"SELECT {columns} FROM {quoted(str(tables.ledger.schema), tables.ledger.name)}"
        f" WHERE run = {run} AND trigger_id IN ({numbers}) ORDER BY trigger_id"
    )


async def _readings(connection: Connection, tables: GroupTables, rows: Array) -> Array:
    """The readings of the triggers of ledger rows, which are of one run."""
    arrays = tables.layout is Layout.ARRAYS
    text = _by_keys(tables, rows) if arrays else " UNION ALL ".join(_by_stretches(tables, rows))
    packets = await connection.select(text)
    readings = (read_arrays if arrays else read_rows)(packets, tables.group)
    return np.asarray(readings[np.lexsort((readings["instrument"], readings["trigger"]))])


def _by_keys(tables: GroupTables, rows: Array) -> str:
    keys = zip(rows["time_ns"].tolist(), rows["run"].tolist(), rows["trigger"].tolist(), strict=True)
    return f"{_select(tables)} WHERE (time_ns, run, trigger_id) IN ({','.join(map(str, keys))})"


def _by_stretches(tables: GroupTables, rows: Array) -> Iterator[str]:
    """A question a stretch of time: one with OR between them takes the optimizer a time that grows with its square.

    Stretches of triggers that overlap are one, which is read once: a single instrument whose clock is off by an hour
    stretches them all.
    """
    rows = rows[np.argsort(rows["first_ns"], kind="stable")]
    ends = np.maximum.accumulate(rows["last_ns"])
    for together in np.split(rows, np.flatnonzero(rows["first_ns"][1:] > ends[:-1]) + 1):
        numbers = ",".join(map(str, together["trigger"].tolist()))
        yield (
            f"({_select(tables)} WHERE time_ns BETWEEN {together['first_ns'].min()} AND {together['last_ns'].max()}"
            f" AND run = {together['run'][0]} AND trigger_id IN ({numbers}))"
        )


def _select(tables: GroupTables) -> str:
    columns = ", ".join(quoted(column.name) for column in tables.data.c)
    return f"SELECT {columns} FROM {quoted(str(tables.data.schema), tables.data.name)}"


def _chunks(rows: Array, size: int) -> Iterator[Array]:
    return (rows[start : start + size] for start in range(0, len(rows), size))

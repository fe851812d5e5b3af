"""The readings of many triggers: their ledger rows first, whose times say where in the table the readings are."""

import numpy as np

from backends.columns.stored import SLACK_NS
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import read_arrays, read_ledger, read_rows
from backends.mysql.protocol.sql import quoted
from backends.sql import selects
from backends.sql.tables import GroupTables
from schemas.batch import Layout
from schemas.queries import TriggersReadings, answer_dtype
from schemas.readings import Array

LEAST_NS, MOST_NS = -(2**63), 2**63 - 1
TRIGGERS = 200
"""So many triggers are asked for with one question.

Of more than 1,000 values MariaDB makes a temporary table; and the fewer there are, the fewer partitions have them.
"""


async def readings_of_triggers(connection: Connection, tables: GroupTables, query: TriggersReadings) -> Array:
    """Answer TriggersReadings; `answer_dtype(group)`, by trigger and instrument."""
    parts = [np.empty(0, answer_dtype(tables.group))]
    wanted = np.unique(np.array(query.triggers, np.int64))
    for start in range(0, len(wanted), TRIGGERS):
        rows = await ledger_of_triggers(connection, tables, query.run, wanted[start : start + TRIGGERS])
        if len(rows):
            parts.append(await _readings(connection, tables, rows))
    return np.concatenate(parts)


async def ledger_of_triggers(connection: Connection, tables: GroupTables, run: int, triggers: Array) -> Array:
    """The ledger rows of some triggers, ascending, of which there is at least one.

    The ledger's key begins with run and trigger, and its partitions are by time: a trigger alone is looked for in all
    of them. So the times of the first and the last are looked up, and the others between them; and what is not there,
    since a clock went back or it does not exist, everywhere.
    """
    ((low_ns, high_ns),) = await connection.fetch(_ends(tables, run, int(triggers[0]), int(triggers[-1])))
    between = f" AND time_ns BETWEEN {LEAST_NS if low_ns is None else max(low_ns - SLACK_NS, LEAST_NS)}"
    between += f" AND {MOST_NS if high_ns is None else min(high_ns + SLACK_NS, MOST_NS)}"
    rows = read_ledger(await connection.select(_by_number(tables, run, triggers) + between), tables.group.size)
    others = np.setdiff1d(triggers, rows["trigger"])
    if not len(others) or (low_ns is None and high_ns is None):
        return rows
    found = read_ledger(await connection.select(_by_number(tables, run, others)), tables.group.size)
    return np.concatenate([rows, found])


def _ends(tables: GroupTables, run: int, first: int, last: int) -> str:
    """Ask for the time of a run's last trigger up to `first`, and of its first from `last` on; NULL without one."""
    of_run = f"SELECT time_ns FROM {_ledger_table(tables)} WHERE run = {run} AND trigger_id"
    before, behind = f"{of_run} <= {first} ORDER BY trigger_id DESC", f"{of_run} >= {last} ORDER BY trigger_id"
    return f"SELECT ({before} LIMIT 1), ({behind} LIMIT 1)"


def _by_number(tables: GroupTables, run: int, triggers: Array) -> str:
    columns = ", ".join(quoted(column.name) for column in selects.ledger_columns(tables))
    numbers = ",".join(map(str, triggers.tolist()))
    return f"SELECT {columns} FROM {_ledger_table(tables)} WHERE run = {run} AND trigger_id IN ({numbers})"


def _ledger_table(tables: GroupTables) -> str:
    return quoted(str(tables.ledger.schema), tables.ledger.name)


async def _readings(connection: Connection, tables: GroupTables, rows: Array) -> Array:
    """The readings of the triggers of ledger rows, which are of one run."""
    arrays = tables.layout is Layout.ARRAYS
    packets = await connection.select((_by_keys if arrays else _by_stretches)(tables, rows))
    readings = (read_arrays if arrays else read_rows)(packets, tables.group)
    return np.asarray(readings[np.lexsort((readings["instrument"], readings["trigger"]))])


def _by_keys(tables: GroupTables, rows: Array) -> str:
    keys = zip(rows["time_ns"].tolist(), rows["run"].tolist(), rows["trigger"].tolist(), strict=True)
    return f"{_select(tables)} WHERE (time_ns, run, trigger_id) IN ({','.join(map(str, keys))})"


def _by_stretches(tables: GroupTables, rows: Array) -> str:
    """Select by stretches of time, and nothing else between the ORs: so the optimizer makes a list of ranges of them.

    With the triggers there, too, its time grows with the square of their number; and a select a stretch opens all
    partitions as often. Stretches that overlap are one: a single instrument whose clock is off by an hour stretches all
    triggers, and they are read once.
    """
    rows = rows[np.argsort(rows["first_ns"], kind="stable")]
    ends = np.maximum.accumulate(rows["last_ns"])
    together = np.split(rows, np.flatnonzero(rows["first_ns"][1:] > ends[:-1]) + 1)
    stretches = (f"time_ns BETWEEN {some['first_ns'].min()} AND {some['last_ns'].max()}" for some in together)
    numbers = ",".join(map(str, rows["trigger"].tolist()))
    of_run = f"run = {rows['run'][0]} AND trigger_id IN ({numbers})"
    return f"{_select(tables)} WHERE ({' OR '.join(stretches)}) AND {of_run}"


def _select(tables: GroupTables) -> str:
    columns = ", ".join(quoted(column.name) for column in tables.data.c)
    return f"SELECT {columns} FROM {quoted(str(tables.data.schema), tables.data.name)}"

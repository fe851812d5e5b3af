"""The readings of many triggers, scattered over all that is stored."""

from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from backends.columns.windows import in_order
from backends.postgresql.protocol import output
from backends.postgresql.protocol.connection import Connection
from backends.sql import selects
from backends.sql.reading import AT_ONCE
from backends.sql.tables import GroupTables
from schemas.batch import Layout
from schemas.queries import TriggersReadings, answer_dtype
from schemas.readings import Array

WORTH_READING = 8_000
"""Between two wanted triggers so many readings are rather gone through than looked up again: the BRIN index tells
stretches of about 4,000 apart."""


async def readings_of_triggers(connection: Connection, tables: GroupTables, query: TriggersReadings) -> Array:
    """Answer `TriggersReadings`: `answer_dtype(group)`, by trigger and instrument."""
    wanted, parts = sorted(set(query.triggers)), [np.empty(0, answer_dtype(tables.group))]
    for start in range(0, len(wanted), AT_ONCE):
        found = selects.ledger_of_triggers(tables, query.run, wanted[start : start + AT_ONCE])
        rows = await output.ledger(connection, tables, found)
        if len(rows):
            select = rows_of(tables, rows) if tables.layout is Layout.ROWS else arrays_of(tables, rows)
            parts.append(await output.readings(connection, tables, select))
    return in_order(np.concatenate(parts))


def rows_of(tables: GroupTables, rows: Array) -> sa.Select[Any]:
    """Select the single readings of triggers of one run by their ledger rows, in no order."""
    data = tables.data.c
    first, last, low, high = _stretches(rows, tables.group.size)
    names = ("first", "last", "low", "high")
    stretch = sa.func.unnest(*map(_array, (first, last, low, high))).table_valued(*names).render_derived("stretch")
    # Stretches are apart by their triggers: the times of an instrument whose clock is wrong reach into others.
    is_in = sa.and_(
        data.time_ns.between(stretch.c.low, stretch.c.high),
        data.trigger_id.between(stretch.c.first, stretch.c.last),
    )
    # Not for the index, which would be gone through for each trigger again.
    wanted = (data.trigger_id + 0).in_(rows["trigger"].tolist())
    return (
        sa.select(*data)
        .select_from(stretch.join(tables.data, is_in))
        .where(data.run == int(rows["run"][0]), wanted)
        .where(data.time_ns >= int(low.min()), data.time_ns <= int(high.max()))
    )


def arrays_of(tables: GroupTables, rows: Array) -> sa.Select[Any]:
    """Select the arrays of triggers of one run by their ledger rows, in no order."""
    data = tables.data.c
    return sa.select(*data).where(
        data.time_ns.in_(np.unique(rows["time_ns"]).tolist()),
        data.run == int(rows["run"][0]),
        (data.trigger_id + 0).in_(rows["trigger"].tolist()),
    )


def _stretches(rows: Array, instruments: int) -> tuple[Array, Array, Array, Array]:
    """Put triggers that are near each other together: first and last trigger, earliest and latest time; int64."""
    rows = rows[np.argsort(rows["trigger"])]
    skipped = np.diff(rows["trigger"]).astype(np.float64) * instruments
    first = np.flatnonzero(np.concatenate([[True], skipped > WORTH_READING]))
    last = np.concatenate([first[1:], [len(rows)]]) - 1
    low, high = np.minimum.reduceat(rows["first_ns"], first), np.maximum.reduceat(rows["last_ns"], first)
    return rows["trigger"][first], rows["trigger"][last], low, high


def _array(times: Array) -> sa.ColumnElement[Any]:
    return sa.cast(postgresql.array(times.tolist()), postgresql.ARRAY(sa.BigInteger))

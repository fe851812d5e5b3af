"""Means and aggregates: made by the server of single readings, and here of arrays, which come in chunks.

Measured in `docs/decisions/0029-what-readers-ask-of-postgresql.md`: to unnest arrays takes the server three times as
long as to hand them out.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import asyncpg
import numpy as np
import sqlalchemy as sa

from backends.columns.reductions import reducer_of, starts_of
from backends.postgresql.protocol import output
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.copy import RowFormat, decode_reduced
from backends.postgresql.protocol.sql import compiled, quoted
from backends.sql import selects
from backends.sql.accounting import select_decimated
from backends.sql.decimation import decimated_of
from backends.sql.reading import answer_across
from backends.sql.tables import GroupTables, reduced_columns
from schemas.batch import Layout
from schemas.decimation import reduced_dtype
from schemas.queries import EXTREMES, Aggregate, Figures, Means, Reduction, WindowReadings, aggregate_dtype, means_dtype
from schemas.readings import Array, Channel

Column = sa.ColumnElement[Any]


async def answer(connection: Connection, tables: GroupTables, query: Reduction | Figures) -> Array:
    """Answer `Means`, `Aggregate` or `Figures`; means also of what was reduced."""
    if isinstance(query, Aggregate):
        return await _raw(connection, tables, query)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        found = select_decimated(str(tables.data.schema), query.group.name)
        account = decimated_of([tuple(row) for row in await connection.fetch(compiled(found))])

        async def readings(part: Means, use: Callable[[Array], None]) -> None:
            await output.readings_in_chunks(connection, tables, _within(tables, part), use)

        raw, figures = partial(_raw, connection, tables), partial(reduced, connection, tables)
        return await answer_across(query, account, tables.layout, raw=raw, readings=readings, reduced=figures)


async def _raw(connection: Connection, tables: GroupTables, query: Reduction) -> Array:
    if tables.layout is Layout.ROWS:
        try:
            # What the server refuses ends a transaction.
            async with connection.transaction():
                return await _by_server(connection, tables, query)
        except asyncpg.NumericValueOutOfRangeError:
            # Beside a sum it keeps the sum of squares, which ends where a value is over 1e154.
            pass
    return await _here(connection, tables, query)


async def _by_server(connection: Connection, tables: GroupTables, query: Reduction) -> Array:
    if isinstance(query, Means):
        return _parsed_means(await output.copied(connection, select_means(tables, query)), query)
    return _parsed_aggregate(await output.copied(connection, select_aggregate(tables)), query)


async def _here(connection: Connection, tables: GroupTables, query: Reduction) -> Array:
    """Answer in bounded memory of all readings."""
    found = _within(tables, query) if isinstance(query, Means) else sa.select(*tables.data.c)
    reducer = reducer_of(query)
    await output.readings_in_chunks(connection, tables, found, reducer.add)
    return reducer.answer()


def _within(tables: GroupTables, query: Means) -> sa.Select[Any]:
    """Select the rows that may have readings in the time of a question."""
    window = WindowReadings(group=query.group, start_ns=query.start_ns, end_ns=query.end_ns)
    return selects.readings_in_window(tables, window).order_by(None)


async def reduced(
    connection: Connection, tables: GroupTables, start_ns: int, end_ns: int, instrument: int | None = None
) -> Array:
    """Figures of buckets with start_ns <= begin < end_ns: `reduced_dtype(group)`, by time and instrument.

    instrument: only of this one.
    """
    name = quoted(str(tables.data.schema), tables.reduced.name)
    if await connection.fetchval("SELECT to_regclass($1) IS NULL", name):
        # An older triggerlog has made the group, and nothing of it was reduced.
        return np.empty(0, reduced_dtype(tables.group))
    columns = [tables.reduced.c[column.name] for column in reduced_columns(tables.group)]
    time_ns = tables.reduced.c.time_ns
    found = sa.select(*columns).where(time_ns >= start_ns, time_ns < end_ns)
    if instrument is not None:
        found = found.where(tables.reduced.c.instrument == instrument)
    figures = decode_reduced(await output.copied(connection, found), tables.group)
    return figures[np.lexsort((figures["instrument"], figures["time_ns"]))]


def select_means(tables: GroupTables, query: Means) -> sa.Select[Any]:
    """Select means from single readings: instrument, number of the step since 1970, readings, mean of each channel."""
    data, step_ns = tables.data.c, sa.cast(sa.literal(query.step_ns), sa.BigInteger)
    # Division goes towards zero, steps go downwards.
    step = data.time_ns.op("/")(step_ns) - sa.cast(data.time_ns % step_ns < 0, sa.Integer)
    return (
        sa.select(data.instrument, step.label("step"), sa.func.count(), *_figures(tables, [_mean]))
        .where(data.time_ns >= query.start_ns, data.time_ns < query.end_ns)
        .group_by(data.instrument, sa.text("step"))
    )


def select_aggregate(tables: GroupTables) -> sa.Select[Any]:
    """Select figures of all single readings: instrument, readings, and of each channel those of EXTREMES."""
    data = tables.data.c
    figures = _figures(tables, [_mean, _least, _greatest])
    return sa.select(data.instrument, sa.func.count(), *figures).group_by(data.instrument)


def _figures(tables: GroupTables, figures: list[Callable[[Column, Channel], Column]]) -> list[Column]:
    """Float64, and NaN where there is none."""
    nan = sa.cast(sa.literal("NaN"), sa.DOUBLE_PRECISION)
    return [
        sa.func.coalesce(figure(sa.cast(tables.data.c[channel.name], sa.DOUBLE_PRECISION), channel), nan)
        for channel in tables.group.channels
        for figure in figures
    ]


def _valid(value: Column, channel: Channel) -> Column:
    return sa.func.nullif(value, sa.cast(sa.literal("NaN"), sa.DOUBLE_PRECISION)) if channel.is_float else value


def _mean(value: Column, channel: Channel) -> Column:
    # Not the sum divided by a count of its own: to look for NaN twice costs more.
    return sa.func.avg(_valid(value, channel))


def _least(value: Column, _: Channel) -> Column:
    return sa.func.min(value)  # NaN is the greatest of all for PostgreSQL


def _greatest(value: Column, channel: Channel) -> Column:
    return sa.func.max(_valid(value, channel))


def _parsed_means(found: bytearray, query: Means) -> Array:
    names = [channel.name for channel in query.group.channels]
    head = [("instrument", "<i2", 0), ("step", "<i8", 0), ("readings", "<i8", 0)]
    rows = RowFormat([*head, *((f"mean of {name}", "<f8", 0) for name in names)]).parse(found)
    answer = np.empty(len(rows), means_dtype(query.group))
    answer["instrument"], answer["count"] = rows["instrument"], rows["readings"]
    answer["time_ns"] = starts_of(rows["step"].astype("<i8"), query.step_ns)
    for name in names:
        answer[name] = rows[f"mean of {name}"]
    return answer[np.lexsort((answer["time_ns"], answer["instrument"]))]


def _parsed_aggregate(found: bytearray, query: Aggregate) -> Array:
    names = [channel.name for channel in query.group.channels]
    figures = [(f"{figure} of {name}", "<f8", 0) for name in names for figure in EXTREMES]
    rows = RowFormat([("instrument", "<i2", 0), ("readings", "<i8", 0), *figures]).parse(found)
    answer = np.empty(len(rows), aggregate_dtype(query.group))
    answer["instrument"], answer["count"] = rows["instrument"], rows["readings"]
    for name in names:
        for figure in EXTREMES:
            answer[name][figure] = rows[f"{figure} of {name}"]
    return answer[np.argsort(answer["instrument"])]

"""Means and aggregates of a group's readings, and figures of what was reduced.

In the rows layout the server makes them: one row an instrument and step comes back. Arrays are byte strings that it
cannot add up; they come in chunks, and the figures are made here.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import NamedTuple

import numpy as np

from backends.columns.filling import Columns
from backends.columns.reductions import means_of, reducer_of, sums_dtype
from backends.columns.stored import slack
from backends.decimation import together
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import (
    EXACT,
    Field,
    ResultFormat,
    floats_dtype,
    read_arrays,
    read_reduced,
    read_rows,
)
from backends.mysql.protocol.sql import compiled, quoted
from backends.mysql.retention import tables_there
from backends.sql.accounting import select_decimated
from backends.sql.decimation import decimated_of
from backends.sql.reading import answer_across
from backends.sql.tables import GroupTables, reduced_columns
from schemas.batch import Layout
from schemas.queries import Aggregate, Figures, Means, Reduction, aggregate_dtype
from schemas.readings import Array, Channel


async def reduced(
    connection: Connection, tables: GroupTables, start_ns: int, end_ns: int, instrument: int | None = None
) -> Array:
    """Figures of buckets with start_ns <= begin < end_ns: `reduced_dtype(group)`, by time and instrument.

    instrument: only of this one.
    """
    schema, name = str(tables.data.schema), tables.reduced.name
    if not await tables_there(connection, schema, [name]):
        # An older triggerlog has made the group, and nothing of it was reduced.
        return together([], tables.group)
    of = "" if instrument is None else f" AND instrument = {instrument}"
    within = f"time_ns >= {start_ns} AND time_ns < {end_ns}{of} ORDER BY time_ns, instrument"
    return read_reduced(await connection.select(select_reduced(tables, within)), tables.group)


def select_reduced(tables: GroupTables, where: str) -> str:
    """Select figures, in the order in which they are read."""
    columns = ", ".join(quoted(column.name) for column in reduced_columns(tables.group))
    return f"SELECT {columns} FROM {quoted(str(tables.data.schema), tables.reduced.name)} WHERE {where}"


CHUNK_BYTES = 2 * 1024 * 1024
"""About so much is taken apart at once: the event loop has its turn in between."""
BEGIN = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
_KEY = np.dtype([("instrument", "<i8"), ("step", "<i8")])


async def figures(connection: Connection, tables: GroupTables, query: Reduction | Figures) -> Array:
    """Answer Means, Aggregate or Figures, of one snapshot; means also of what was reduced."""
    await connection.run(BEGIN)
    if isinstance(query, Aggregate):
        answer = await _raw(connection, tables, query)
    else:
        answer = await _across(connection, tables, query)
    await connection.run("COMMIT")
    return answer


async def _across(connection: Connection, tables: GroupTables, query: Means | Figures) -> Array:
    found = select_decimated(str(tables.data.schema), query.group.name)
    account = decimated_of(await connection.fetch(compiled(found)))

    async def readings(part: Means, use: Callable[[Array], None]) -> None:
        await _in_chunks(connection, tables, part, use)

    raw, figures = partial(_raw, connection, tables), partial(reduced, connection, tables)
    return await answer_across(query, account, tables.layout, raw=raw, readings=readings, reduced=figures)


async def _raw(connection: Connection, tables: GroupTables, query: Reduction) -> Array:
    if tables.layout is Layout.ARRAYS:
        return await _from_arrays(connection, tables, query)
    if isinstance(query, Means):
        return await _means(connection, tables, query)
    return await _aggregate(connection, tables, query)


async def _from_arrays(connection: Connection, tables: GroupTables, query: Reduction) -> Array:
    reducer = reducer_of(query)
    await _in_chunks(connection, tables, query, reducer.add)
    return reducer.answer()


async def _in_chunks(
    connection: Connection, tables: GroupTables, query: Reduction, use: Callable[[Array], None]
) -> None:
    """Hand on all readings of the rows that may have some in the time of a question."""
    is_arrays = tables.layout is Layout.ARRAYS
    read = read_arrays if is_arrays else read_rows
    columns = ", ".join(quoted(column.name) for column in tables.data.c)
    within = ""
    if isinstance(query, Means):
        low, high = slack(query.start_ns, query.end_ns) if is_arrays else (query.start_ns, query.end_ns - 1)
        within = f" WHERE time_ns BETWEEN {low} AND {high}"
    async with aclosing(connection.chunks(f"SELECT {columns} FROM {_table(tables)}{within}", CHUNK_BYTES)) as chunks:
        async for packets in chunks:
            use(read(packets, query.group))


async def _means(connection: Connection, tables: GroupTables, query: Means) -> Array:
    step = query.step_ns
    wanted = _Wanted(
        tables=tables,
        # DIV cuts towards zero; steps before 1970 have to be rounded down as all others.
        step=f"time_ns DIV {step} - (time_ns % {step} < 0)",
        where=f"time_ns >= {query.start_ns} AND time_ns < {query.end_ns}",
        ends=False,
    )
    found = await _figures(connection, wanted)
    sums = np.empty(len(found["instrument"]), sums_dtype(query.group))
    for name in sums.dtype.names or ():
        sums[name] = found[name]
    return means_of(sums, query)


async def _aggregate(connection: Connection, tables: GroupTables, query: Aggregate) -> Array:
    found = await _figures(connection, _Wanted(tables=tables, step=None, where="TRUE", ends=True))
    order = np.argsort(found["instrument"])
    answer = np.empty(len(order), aggregate_dtype(query.group))
    for name in ("instrument", "count"):
        answer[name] = found[name][order]
    for k, channel in enumerate(query.group.channels):
        numbers = found[f"n{k}"][order]
        there, nothing = numbers > 0, np.full(len(order), np.nan)
        figure = answer[channel.name]
        figure["mean"] = np.divide(found[f"sum{k}"][order], numbers, out=nothing.copy(), where=there)
        for name in ("least", "greatest"):
            figure[name] = np.where(there, found[f"{name}{k}"][order], nothing)
    return answer


class _Wanted(NamedTuple):
    """What is asked of the server: figures by instrument and by `step`, an expression, of the rows that `where` says.

    ends: whether least and greatest are wanted, too.
    """

    tables: GroupTables
    step: str | None
    where: str
    ends: bool

    @property
    def channels(self) -> Sequence[Channel]:
        return self.tables.group.channels

    @property
    def keys(self) -> list[tuple[Field, str]]:
        """The columns that every answer begins with."""
        step = [(Field("step", "<i8"), self.step)] if self.step is not None else []
        return [(Field("instrument", "<i2"), "instrument"), *step]


async def _figures(connection: Connection, wanted: _Wanted) -> dict[str, Array]:
    """By instrument and step, in any order: instrument, step, count, and of channel k `n`k, `sum`k and the ends."""
    floats = any(channel.is_float for channel in wanted.channels)
    if not floats:
        return await _grouped(connection, wanted, wanted.where, _finite(wanted))
    exact = quoted(EXACT)
    found = await _grouped(
        connection, wanted, wanted.where, [*_finite(wanted), (Field("exact", "<i8"), f"COUNT({exact})")]
    )
    if found["exact"].any():
        where = f"{wanted.where} AND {exact} IS NOT NULL"
        _add_infinities(found, await _grouped(connection, wanted, where, _infinite(wanted)), wanted)
    return found


async def _grouped(
    connection: Connection, wanted: _Wanted, where: str, figures: Sequence[tuple[Field, str]]
) -> dict[str, Array]:
    columns = [*wanted.keys, *figures]
    by = ", ".join(str(number + 1) for number in range(len(wanted.keys)))
    text = (
        f"SELECT {', '.join(text for _, text in columns)} FROM {_table(wanted.tables)}"
        # Putting them in order is cheaper here than there.
        f" WHERE {where} GROUP BY {by} ORDER BY NULL"
    )
    parsed: Columns = ResultFormat([field for field, _ in columns]).parse(await connection.select(text))[0]
    found = {name: np.array(column) for name, column in parsed.items()}
    found.setdefault("step", np.zeros(len(found["instrument"]), np.int64))
    return found


def _finite(wanted: _Wanted) -> list[tuple[Field, str]]:
    """Figures of what DOUBLE holds; all else is NULL, which the server leaves out."""
    found = [(Field("count", "<i8"), "COUNT(*)")]
    for k, channel in enumerate(wanted.channels):
        name = quoted(channel.name)
        # As a DOUBLE all of them, but a sum of floats is one, and may be too large for arithmetic on it.
        found.append((Field(f"n{k}", "<i8"), f"COUNT({name})"))
        found.append((Field(f"sum{k}", "<f8"), f"SUM({name})" if channel.is_float else f"SUM({name}) + 0e0"))
        if wanted.ends:
            found.append((Field(f"least{k}", "<f8"), f"MIN({name}) + 0e0"))
            found.append((Field(f"greatest{k}", "<f8"), f"MAX({name}) + 0e0"))
    return found


def _infinite(wanted: _Wanted) -> list[tuple[Field, str]]:
    """How many infinities there are, of either sign, among what DOUBLE does not hold."""
    floats, found = floats_dtype(wanted.tables.group), []
    for k, channel in enumerate(wanted.channels):
        if not channel.is_float:
            continue
        assert floats.fields is not None
        form, offset = floats.fields[channel.name][:2]
        value = f"SUBSTR({quoted(EXACT)}, {offset + 1}, {form.itemsize})"
        for sign, infinity in (("plus", np.inf), ("minus", -np.inf)):
            bits = np.array(infinity, form).tobytes().hex()
            found.append((Field(f"{sign}{k}", "<i8"), f"COUNT(IF({value} = x'{bits}', 1, NULL))"))
    return found


def _add_infinities(found: dict[str, Array], infinite: dict[str, Array], wanted: _Wanted) -> None:
    keys, mine = _keys(found), _keys(infinite)
    order = np.argsort(keys)
    at = order[np.searchsorted(keys, mine, sorter=order)]
    for k, channel in enumerate(wanted.channels):
        if not channel.is_float:
            continue
        plus, minus = infinite[f"plus{k}"], infinite[f"minus{k}"]
        found[f"n{k}"][at] += plus + minus
        with np.errstate(invalid="ignore"):
            found[f"sum{k}"][at] += np.where(plus > 0, np.inf, 0.0) + np.where(minus > 0, -np.inf, 0.0)
        if wanted.ends:
            # Where there is nothing else, the server gave no end at all.
            alone = found[f"n{k}"][at] == plus + minus
            for name, mine, other, value in (("least", minus, plus, -np.inf), ("greatest", plus, minus, np.inf)):
                end = found[f"{name}{k}"]
                end[at] = np.where(mine > 0, value, np.where(alone & (other > 0), -value, end[at]))


def _keys(figures: Columns) -> Array:
    keys = np.empty(len(figures["instrument"]), _KEY)
    keys["instrument"], keys["step"] = figures["instrument"], figures["step"]
    return keys


def _table(tables: GroupTables) -> str:
    return quoted(str(tables.data.schema), tables.data.name)

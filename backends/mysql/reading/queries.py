"""The questions of `schemas.queries`, asked of MariaDB and MySQL; readings come in the binary protocol.

For the readings of many triggers their ledger rows are read first, whose times say where in the table the readings are.

For a snapshot the way goes back in time from the moment, in chunks, until all instruments are found. Both tables are in
the order of time. The first chunk is a few triggers, which most of the time is all; the next are larger, and the server
gives only what has an instrument that is still to be found: one that is dead costs the server a walk over the whole
stretch of time, and nothing on the way here.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from pymysql.err import MySQLError

from backends.columns.filling import readings_from_arrays
from backends.columns.reductions import Newest
from backends.columns.stored import MISSING_OFFSET, SLACK_NS, STORED_DTYPES, slack
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import (
    arrays_fields,
    parse_arrays,
    read_arrays,
    read_elements,
    read_ledger,
    read_rows,
)
from backends.mysql.protocol.sql import compiled, quoted
from backends.mysql.reading.figures import figures
from backends.mysql.retention import tables_there
from backends.mysql.schema.tables import COMPLETE, SKIPPED, integer, picked
from backends.mysql.server.errors import CHANGED, number_of
from backends.mysql.server.facts import product_of
from backends.sql import selects
from backends.sql.reading import SqlQuestions
from backends.sql.retention import apart_name, select_apart
from backends.sql.tables import GroupTables
from schemas.batch import Layout
from schemas.ledger import ledger_dtype
from schemas.queries import (
    InstrumentReadings,
    Reduction,
    SkippedTriggers,
    Snapshot,
    Totals,
    TriggersReadings,
    answer_dtype,
)
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


FIRST_TRIGGERS = 4
GROWTH = 8
MOST_BYTES = 8 * 1024 * 1024
"""Most that is asked for at once."""


async def snapshot(connection: Connection, tables: GroupTables, query: Snapshot) -> Array:
    """Answer Snapshot; `answer_dtype(group)`, by instrument."""
    if query.within_ns < 1:
        return np.empty(0, answer_dtype(query.group))
    search = (_InArrays if tables.layout is Layout.ARRAYS else _InRows)(connection, tables, query)
    await search.go()
    return search.found


class _Search(Newest):
    """Goes back in time; `found` has the newest reading of each instrument so far."""

    def __init__(self, connection: Connection, tables: GroupTables, query: Snapshot) -> None:
        super().__init__(query)
        self.connection = connection
        self.tables = tables
        self.query = query
        self.low_ns = max(query.at_ns - query.within_ns, LEAST_NS)

    def select(self, where: Iterable[str], of: str = "") -> str:
        """Select data rows; `of` joins another table, and the data's is `d`."""
        columns = ", ".join(f"d.{quoted(column.name)}" for column in self.tables.data.c)
        table = quoted(str(self.tables.data.schema), self.tables.data.name)
        return f"SELECT {columns} FROM {table} d{of} WHERE {' AND '.join(where)}"

    def newest_first(self, where: Iterable[str], keys: Sequence[str], below: Sequence[int] | None, most: int) -> str:
        """Select rows from the newest on, those behind the key `below`."""
        behind = [] if below is None else [f"d.time_ns <= {below[0]}", f"NOT ({_at_or_after(keys, below)})"]
        order = ", ".join(f"d.{key} DESC" for key in keys)
        return f"{self.select([*where, *behind])} ORDER BY {order} LIMIT {most}"


class _InRows(_Search):
    KEYS = ("time_ns", "run", "trigger_id", "instrument")

    async def go(self) -> None:
        group = self.query.group
        within = f"d.time_ns > {self.low_ns} AND d.time_ns <= {self.query.at_ns}"
        most, below = FIRST_TRIGGERS * group.size, None
        while missing := self.missing():
            only = [] if len(missing) == group.size else [f"d.instrument IN ({','.join(map(str, missing))})"]
            text = self.newest_first([within, *only], self.KEYS, below, most)
            readings = read_rows(await self.connection.select(text), group)
            self.add(readings)
            if len(readings) < most:
                return
            below = [int(readings[name][-1]) for name in ("time_ns", "run", "trigger", "instrument")]
            most = min(GROWTH * most, max(most, MOST_BYTES // readings.itemsize))


class _InArrays(_Search):
    """Here a row is found by its trigger's time, and its readings may be earlier or later than that by SLACK_NS."""

    KEYS = ("time_ns", "run", "trigger_id")

    async def go(self) -> None:
        group, at_ns = self.query.group, self.query.at_ns
        low_ns = max(self.low_ns - SLACK_NS, LEAST_NS)
        row_bytes = sum(field.width for field in arrays_fields(group))
        most, below = FIRST_TRIGGERS, None
        while missing := self.missing():
            only = [] if len(missing) == group.size else [self._has_one_of(missing)]
            within = f"d.time_ns >= {low_ns} AND d.time_ns <= {at_ns}"
            columns = parse_arrays(
                await self.connection.select(self.newest_first([within, *only], self.KEYS, below, most)), group
            )
            self.add(readings_from_arrays(columns, group))
            if len(columns["run"]) < most:
                break
            below = [int(columns[name][-1]) for name in self.KEYS]
            await self._earlier_triggers(below[0], missing)
            most = min(GROWTH * most, max(most, MOST_BYTES // row_bytes))
        # Of later triggers those of which a reading is from before.
        self.add(await self._by_ledger(at_ns, min(at_ns + SLACK_NS, MOST_NS), self.low_ns))

    async def _earlier_triggers(self, time_ns: int, were_missing: Sequence[int]) -> None:
        """Look whether a trigger before this time has a newer reading of an instrument that was found just now."""
        new = self.found[np.isin(self.found["instrument"], were_missing)]
        if len(new):
            start_ns, oldest_ns = max(time_ns - SLACK_NS, LEAST_NS), int(new["time_ns"].min())
            readings = await self._by_ledger(start_ns, time_ns, oldest_ns)
            # Of an instrument that was not found there may be a newer one in between.
            self.add(readings[np.isin(readings["instrument"], new["instrument"])])

    async def _by_ledger(self, start_ns: int, end_ns: int, last_ns: int) -> Array:
        """The triggers of a stretch that have a reading from `last_ns` to the moment asked for, as the ledger says."""
        ledger = quoted(str(self.tables.ledger.schema), self.tables.ledger.name)
        joined = f" STRAIGHT_JOIN {ledger} l ON l.run = d.run AND l.trigger_id = d.trigger_id AND l.time_ns = d.time_ns"
        where = [
            f"d.time_ns BETWEEN {start_ns} AND {end_ns}",
            f"l.first_ns <= {self.query.at_ns} AND l.last_ns >= {last_ns}",
        ]
        return read_arrays(await self.connection.select(self.select(where, joined)), self.query.group)

    def _has_one_of(self, instruments: Sequence[int]) -> str:
        absent = MISSING_OFFSET.to_bytes(8, "little", signed=True).hex()
        there = (f"{picked('d.time_offset_ns', str(number), 8)} <> x'{absent}'" for number in instruments)
        return f"({' OR '.join(there)})"


def _at_or_after(keys: Sequence[str], values: Sequence[int]) -> str:
    """Whether a row's key is not behind another; row comparison would not do, since it uses no index."""
    key, value = f"d.{keys[0]}", values[0]
    if len(keys) == 1:
        return f"{key} >= {value}"
    return f"{key} > {value} OR ({key} = {value} AND ({_at_or_after(keys[1:], values[1:])}))"


class MysqlQuestions(SqlQuestions[Connection]):
    """Answers questions about one group."""

    sorts_here = True

    @property
    def _schema(self) -> str:
        return str(self._tables.data.schema)

    async def _ledger(self, select: sa.SelectBase) -> Array:
        """The ledger rows that a select finds."""
        return read_ledger(await self._connection.select(compiled(select)), self._tables.group.size)

    async def _readings(self, select: sa.SelectBase) -> Array:
        """The readings of the rows that a select finds."""
        read = read_arrays if self._tables.layout is Layout.ARRAYS else read_rows
        return read(await self._connection.select(compiled(select)), self._tables.group)

    async def _at_rest(self, query: Totals) -> Sequence[tuple[Any, ...]] | None:
        # A transaction that has read the group's table keeps others from taking a partition out of it.
        await self._connection.run("START TRANSACTION")
        await self._connection.fetch(f"SELECT 1 FROM {quoted(self._schema, self._tables.data.name)} LIMIT 1")
        begun = await self._begun()
        there = await tables_there(self._connection, self._schema, begun)
        try:
            rows = await self._counted(query, sorted(there))
        except MySQLError as error:
            if number_of(error) not in CHANGED:
                raise
            rows = None
        await self._connection.run("COMMIT")
        # One that was removed since the snapshot is in neither, by that.
        removed = set(begun) - there
        return None if removed - set(await self._begun() if removed else ()) else rows

    async def _begun(self) -> list[str]:
        """Tables of readings that are set apart and not counted yet, or are about to be."""
        found = await self._connection.fetch(compiled(select_apart(self._schema, self._tables.group.name)))
        return [apart_name(self._tables, str(name)) for (name,) in found]

    async def _counted(self, query: Totals, apart: Sequence[str]) -> Sequence[tuple[Any, ...]]:
        # Given up here, it would go on there.
        text = compiled(selects.totals(self._tables, apart))
        if product_of(self._connection.version).backend == "mariadb":
            text = f"SET STATEMENT max_statement_time = {query.within_s} FOR {text}"
        else:
            most = f"/*+ MAX_EXECUTION_TIME({math.ceil(1000 * query.within_s)}) */"
            text = text.replace("SELECT", f"SELECT {most}", 1)
        return await self._connection.fetch(text)

    async def _figures(self, query: Reduction) -> Array:
        """Means or aggregates."""
        return await figures(self._connection, self._tables, query)

    async def _newest_complete(self) -> Array:
        """The ledger row of the newest trigger with every instrument there, by the index made for it."""
        ledger = self._tables.ledger.c
        return await self._ledger(
            sa.select(*selects.ledger_columns(self._tables))
            .where(sa.literal_column(quoted(COMPLETE)) == 1)
            .order_by(ledger.run.desc(), ledger.trigger_id.desc())
            .limit(1)
        )

    async def _ledger_row(self, trigger: int, run: int | None) -> Array:
        """One trigger's ledger row."""
        if run is not None:
            return await super()._ledger_row(trigger, run)
        # The key begins with the run. There are few, and their list is found by skipping from one to the next.
        ledger = self._tables.ledger.c
        runs = [run for (run,) in await self._connection.fetch(compiled(sa.select(ledger.run).distinct()))]
        if not runs:
            return np.empty(0, ledger_dtype(self._tables.group.size))
        found = sa.select(*selects.ledger_columns(self._tables)).where(
            ledger.run.in_(runs), ledger.trigger_id == trigger
        )
        return await self._ledger(found.order_by(ledger.run.desc()).limit(1))

    async def _ledger_ends(self) -> Array:
        """The first and the last ledger row of the newest run."""
        last = await self._ledger_tail(1, None)
        if not len(last):
            return last
        ledger = self._tables.ledger.c
        of_run = sa.select(*selects.ledger_columns(self._tables)).where(ledger.run == int(last["run"][0]))
        first = await self._ledger(of_run.order_by(ledger.trigger_id).limit(1))
        return last if first["trigger"][0] == last["trigger"][0] else np.concatenate([first, last])

    async def _ledger_rows(self, run: int, triggers: Array) -> Array:
        """The ledger rows of triggers."""
        parts = [np.empty(0, ledger_dtype(self._tables.group.size))]
        for start in range(0, len(triggers), TRIGGERS):
            some = triggers[start : start + TRIGGERS]
            parts.append(await ledger_of_triggers(self._connection, self._tables, run, some))
        return np.concatenate(parts)

    async def _skipped(self, query: SkippedTriggers) -> Array:
        """The ledger rows of triggers that follow a gap, by the index made for it."""
        since: sa.ColumnElement[int] = sa.literal_column(quoted(SKIPPED))
        return await self._ledger(selects.skipped_triggers(self._tables, query, since.is_not(None), since))

    async def _instrument(self, query: InstrumentReadings) -> Array:
        """One instrument's newest readings."""
        if self._tables.layout is Layout.ROWS:
            return (await self._readings(selects.readings_of_instrument(self._tables, query)))[::-1]
        packets = await self._connection.select(elements_of_instrument(self._tables, query))
        return read_elements(packets, self._tables.group, query.instrument)[::-1]

    async def _triggers(self, query: TriggersReadings) -> Array:
        """The readings of many triggers."""
        return await readings_of_triggers(self._connection, self._tables, query)

    async def _snapshot(self, query: Snapshot) -> Array:
        """Every instrument's value valid at a moment."""
        return await snapshot(self._connection, self._tables, query)


def elements_of_instrument(tables: GroupTables, query: InstrumentReadings) -> str:
    """Select one instrument's readings out of the arrays, newest first; their bytes are picked out by the server."""
    number = str(query.instrument)
    low, high = slack(query.start_ns, query.end_ns)
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

"""Every instrument's value valid at a moment: back in time from there, in chunks, until all instruments are found.

Both tables are in the order of time. The first chunk is a few triggers, which most of the time is all; the next are
larger, and the server gives only what has an instrument that is still to be found: one that is dead costs the server a
walk over the whole stretch of time, and nothing on the way here.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from backends.columns.filling import readings_from_arrays
from backends.columns.reductions import Newest
from backends.columns.stored import MISSING_OFFSET, SLACK_NS
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import arrays_fields, parse_arrays, read_arrays, read_rows
from backends.mysql.protocol.sql import quoted
from backends.mysql.schema.view import picked
from backends.sql.tables import GroupTables
from schemas.batch import Layout
from schemas.queries import Snapshot, answer_dtype
from schemas.readings import Array

FIRST_TRIGGERS = 4
GROWTH = 8
MOST_BYTES = 8 * 1024 * 1024
"""Most that is asked for at once."""
LEAST_NS, MOST_NS = -(2**63), 2**63 - 1


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

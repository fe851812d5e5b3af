"""What a server says of its own work: what it counts, what its sessions wait for, and the partitions of a group.

https://mariadb.com/kb/en/server-status-variables/, https://mariadb.com/kb/en/general-thread-states/

It does not count what an answer has read of the readings of its group. The table is in the order of time and has no
other index: whoever reads it begins somewhere, or in several parts of it, and reads the rows that follow.
"""

from dataclasses import replace
from math import ceil

import numpy as np
from pymysql.err import MySQLError

from backends.base import Partition, ServerView
from backends.counting import HOUR_NS, HourRead
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import literal
from backends.mysql.schema.partitions import FIRST, MOST, definition_of, period_name, places_of, ranges_of
from backends.mysql.server.errors import NO_RIGHT, number_of
from backends.sql.tables import GroupTables
from schemas.batch import Layout
from schemas.queries import (
    Aggregate,
    InstrumentReadings,
    Means,
    NewestTrigger,
    Query,
    Snapshot,
    TriggerReadings,
    TriggersReadings,
    WindowReadings,
)
from schemas.readings import Array

COUNTERS = {
    "Innodb_os_log_written": "wal_bytes",
    "Innodb_buffer_pool_reads": "cache_misses",
    # All of them, those of the log too.
    "Innodb_data_fsyncs": "fsyncs",
    "Innodb_row_lock_waits": "lock_waits",
    "Innodb_deadlocks": "deadlocks",
    "Com_commit": "commits",
    "Com_rollback": "rollbacks",
    "Created_tmp_disk_tables": "temp_tables",
}
"""What the server counts, and what we call it; MySQL does not count deadlocks, and neither counts bytes of temporary
tables."""
LOOKED_UP = "Innodb_buffer_pool_read_requests"
WAITING = ("Commit", "starting commit", "waiting for handler commit", "Writing to net", "Sending to client")
"""States of a session that waits, besides those that begin with `Waiting`: for the log to be flushed, for the asker."""


async def view(connection: Connection) -> ServerView:
    """Ask what the server counts, and what sessions wait for now, in its words; without this connection's own.

    A login without the right PROCESS sees its own sessions alone.
    """
    names = ", ".join(literal(name) for name in (*COUNTERS, LOOKED_UP))
    status = dict(await connection.fetch(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})"))
    counters = {ours: float(status[name]) for name, ours in COUNTERS.items() if name in status}
    if LOOKED_UP in status and "cache_misses" in counters:
        counters["cache_hits"] = max(0.0, float(status[LOOKED_UP]) - counters["cache_misses"])
    return ServerView(counters=counters, waits=await _waits(connection))


async def _waits(connection: Connection) -> dict[str, int]:
    states = ", ".join(literal(state) for state in WAITING)
    waits = await connection.fetch(
        "SELECT STATE, COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()"
        # Replicas and the event scheduler wait for work.
        " AND COMMAND IN ('Query', 'Execute')"
        f" AND (STATE LIKE 'Waiting%' OR STATE IN ({states})) GROUP BY STATE"
    )
    # A session that waits for a row's lock has the state of what it does.
    rows = await _rows_locked(connection)
    return {**{str(state): int(count) for state, count in waits}, **({"Lock:row": rows} if rows else {})}


async def _rows_locked(connection: Connection) -> int:
    try:
        ((count,),) = await connection.fetch(
            "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
        )
    except MySQLError as error:
        if number_of(error) not in NO_RIGHT:
            raise
        return 0
    return int(count)


async def partitions_of(connection: Connection, of: GroupTables) -> tuple[Partition, ...]:
    """The partitions of a group, in order of time; rows are the server's estimate."""
    found: dict[str, Partition] = {}
    places: dict[str, str | None] = {}
    for table in (of.data, of.ledger):
        rows = await connection.fetch(
            "SELECT PARTITION_NAME, PARTITION_DESCRIPTION, TABLE_ROWS, DATA_LENGTH + INDEX_LENGTH"
            f" FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = {literal(str(table.schema))}"
            f" AND TABLE_NAME = {literal(table.name)} AND PARTITION_NAME IS NOT NULL"
            " ORDER BY PARTITION_ORDINAL_POSITION"
        )
        if rows and table is of.data:
            places = places_of(await definition_of(connection, str(table.schema), table.name))
        for range_, (_, _, count, size) in zip(ranges_of([row[:2] for row in rows]), rows, strict=True):
            before = found.get(range_.name)
            found[range_.name] = Partition(
                name=period_name(range_.name),
                start_ns=range_.start_ns,
                end_ns=min(range_.end_ns, MOST - 1),
                rows=int(count or 0) if table is of.data else before.rows if before else 0,
                size_bytes=int(size or 0) + (before.size_bytes if before else 0),
                readings_bytes=int(size or 0) if table is of.data else before.readings_bytes if before else None,
                place=places.get(range_.name),
                may_move=range_.name in places and period_name(range_.name).isdigit(),
                may_reduce=period_name(range_.name).isdigit(),
            )
    # What was reduced has no partitions, and counts with what takes all times before.
    reduced = await connection.fetch(
        "SELECT DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA = {literal(str(of.data.schema))} AND TABLE_NAME = {literal(of.reduced.name)}"
    )
    if FIRST in found and reduced:
        first = found[FIRST]
        found[FIRST] = replace(first, size_bytes=first.size_bytes + int(reduced[0][0] or 0))
    return tuple(sorted(found.values(), key=lambda partition: partition.start_ns))


def read_by(query: Query, answer: Array, layout: Layout) -> list[HourRead]:
    """What an answer has read, by the hour.

    Known: rows whose readings are in the answer, and those that means were made of (where readings were reduced, also
    what they were: more than there are rows). Estimated: for readings of one instrument, that the rows of the others
    lie between them; for means in the arrays layout, that no trigger lacks an instrument. Rows that were gone through
    and are not in the answer do not count, nor does what was read of a ledger.
    """
    if not len(answer):
        return []
    if isinstance(query, Aggregate):
        return [HourRead(query.group.name, None, 1, 0, 0)]
    if isinstance(query, Snapshot):
        answer = np.sort(answer, order=("run", "trigger"))
    rows = _rows(query, answer, layout)
    if rows is None:
        return []
    times = answer["time_ns"]
    begun = times[_begun(answer)] if isinstance(query, TriggersReadings) else times[:1]
    return _by_hour(query.group.name, times, rows, begun)


def _rows(query: Query, answer: Array, layout: Layout) -> Array | None:
    """How many rows were read for each part of an answer; None where that is about a ledger."""
    size, is_arrays = query.group.size, layout is Layout.ARRAYS
    match query:
        case Means():
            return np.asarray(answer["count"] / (size if is_arrays else 1))
        case InstrumentReadings():
            return np.full(len(answer), 1 if is_arrays else size)
        case NewestTrigger() | TriggerReadings() | TriggersReadings() | WindowReadings() | Snapshot():
            return _firsts(answer) if is_arrays else np.ones(len(answer))
        case _:
            return None


def _firsts(readings: Array) -> Array:
    """Which readings are the first ones of their trigger; those of a trigger are side by side."""
    changes = (readings["trigger"][1:] != readings["trigger"][:-1]) | (readings["run"][1:] != readings["run"][:-1])
    return np.append(True, changes)


def _begun(readings: Array) -> Array:
    """Which readings do not follow the trigger before: there reading began anew."""
    follows = readings["trigger"][1:] - readings["trigger"][:-1]
    return np.append(True, (follows < 0) | (follows > 1))


def _by_hour(group: str, times: Array, rows: Array, begun: Array) -> list[HourRead]:
    """Put together what one answer has read.

    times: of what was read, in ns; rows: how many rows each stands for. begun: times of what reading began with.
    """
    hours = times // HOUR_NS
    least = int(hours.min())
    # All times that there are have five million hours: a clock that is wrong costs some memory for a moment.
    read = np.bincount(hours - least, weights=rows)
    starts = np.bincount(begun // HOUR_NS - least, minlength=len(read))
    return [
        HourRead(group, least + hour, 1, int(starts[hour]), ceil(read[hour])) for hour in np.flatnonzero(read).tolist()
    ]

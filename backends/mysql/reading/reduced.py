"""Figures of what was reduced."""

from backends.decimation import together
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import read_reduced
from backends.mysql.protocol.sql import quoted
from backends.mysql.retention import tables_there
from backends.sql.tables import GroupTables, reduced_columns
from schemas.readings import Array


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

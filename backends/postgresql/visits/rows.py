"""The paper's index modes: a row an object version, a source, a forced source.

DIAObjectLast gets its new versions by the paper's DELETE and INSERT, or by its upsert.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from backends.base import StoreError
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.output import copied_text
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.visits.tables import column_sql, copy_in, decode, encode, ids_sql, names_sql
from backends.visits.rows import as_table, tables_by_name
from schemas.api.visits import TableSize
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import Compacted, History, Region, TileWrite
from schemas.visits.tables import DIA_OBJECT_LAST, LastUpdate, Step, Table

NEW = "triggerlog_last"
"""The temporary table of a connection in which new versions wait for their upsert; empty after each transaction."""

Update = Callable[[Connection, str, Table, Array, Array], Awaitable[None]]
"""Called with schema, table, new versions (table.dtype) and which of them had one before (bool)."""


def update_of(visits: VisitsConfig) -> Update:
    """How this configuration updates the table.

    Raises:
        StoreError: PostgreSQL has no such statement.
    """
    if visits.last_update is LastUpdate.REPLACE:
        raise StoreError(
            'visits.last_update: PostgreSQL has no REPLACE; set it to "upsert" or "delete_insert", or leave it out'
        )
    return delete_insert if visits.last_update is LastUpdate.DELETE_INSERT else upsert


async def delete_insert(connection: Connection, schema: str, table: Table, rows: Array, known: Array) -> None:
    """Delete the versions that are there, in one statement, and COPY the new ones."""
    ids = rows["diaObjectId"][known]
    if len(ids):
        await connection.execute(
            f"DELETE FROM {quoted(schema, table.name)} WHERE {quoted('diaObjectId')} = ANY({ids_sql(ids)})"
        )
    await copy_in(connection, table.name, encode(rows, table), schema=schema, columns=table.dtype.names or ())


async def upsert(connection: Connection, schema: str, table: Table, rows: Array, known: Array) -> None:
    """COPY the new versions beside the table, and have the server put each into its place."""
    names = table.dtype.names or ()
    columns = ", ".join(column_sql(column) for column in table.columns if column.name in names)
    await connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {NEW} ({columns}) ON COMMIT DELETE ROWS")
    await copy_in(connection, NEW, encode(rows, table), schema=None, columns=names)
    changed = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in table.key)
    # In the order of the key, workers that ever meet wait for each other and never in a ring.
    await connection.execute(
        f"INSERT INTO {quoted(schema, table.name)} ({names_sql(names)}) SELECT {names_sql(names)} FROM {NEW}"
        f" ORDER BY {names_sql(table.key)} ON CONFLICT ({names_sql(table.key)}) DO UPDATE SET {changed}"
    )


RANGES = 256
"""Ranges in one statement: planning takes a second with thousands."""
SIZE = """
    SELECT greatest(c.reltuples, s.n_live_tup, 0)::int8 AS rows,
           pg_table_size(c.oid) AS table_bytes, pg_indexes_size(c.oid) AS index_bytes
    FROM pg_class c LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid WHERE c.oid = to_regclass($1)
"""


class RowTables:
    """DIAObject, DIASource, DIAForcedSource, and DIAObjectLast where the mode has it.

    Raises:
        StoreError: PostgreSQL has no such way to update DIAObjectLast.
    """

    def __init__(self, visits: VisitsConfig) -> None:
        self._schema = visits.schema_name
        self._tables = tables_by_name(visits)
        self._last = self._tables.get(DIA_OBJECT_LAST.name)
        self._update = update_of(visits)
        self._chunk = visits.id_chunk

    def create(self) -> list[str]:
        """Tables with their keys and indexes."""
        statements = []
        for table in self._tables.values():
            name = quoted(self._schema, table.name)
            columns = ", ".join(map(column_sql, table.columns))
            statements.append(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({names_sql(table.key)}))")
            statements += [f"CREATE INDEX ON {name} ({quoted(column)})" for column in table.indexes]
        return statements

    def added(self) -> Mapping[str, str]:
        """Nothing was added."""
        return {}

    async def begin(self, connection: Connection, time_ns: int) -> None:
        """A visit needs nothing."""

    async def objects(self, connection: Connection, region: Region) -> Array:
        """Last versions in the ranges, LAST_DTYPE."""
        table = self._last or self._tables["DIAObject"]
        pixel = quoted("pixelId")
        newest = "" if self._last else f" AND {quoted('validityEnd')} IS NULL"
        select = f"SELECT {names_sql(DIA_OBJECT_LAST.dtype.names)} FROM {quoted(self._schema, table.name)}"
        answers = []
        for first in range(0, len(region.ranges), RANGES):
            # As the paper asks it. An OR of ranges can only be a bitmap of the index, so no statistics can mislead it;
            # and a bitmap reads the table in its own order, ahead of itself.
            ranges = region.ranges[first : first + RANGES].tolist()
            within = " OR ".join(f"({pixel} >= {begin} AND {pixel} < {end})" for begin, end in ranges)
            answers.append(await copied_text(connection, f"{select} WHERE ({within}){newest}"))
        return decode(answers, DIA_OBJECT_LAST)

    async def history(self, connection: Connection, table: str, history: History) -> Array:
        """Rows of the ids, chunk by chunk."""
        declared = self._tables[table]
        visit = quoted("ccdVisitId")
        # The sum keeps the planner from taking the index of visits, whose share of the table it does not know.
        within = f"{visit} + 0 >= {history.since_visit} AND {visit} + 0 < {history.before_visit}"
        answers = []
        for first in range(0, len(history.ids), self._chunk):
            ids = ids_sql(history.ids[first : first + self._chunk])
            query = (
                f"SELECT {names_sql(declared.dtype.names)} FROM {quoted(self._schema, table)}"
                f" WHERE {quoted('diaObjectId')} = ANY({ids}) AND {within}"
            )
            answers.append(await copied_text(connection, query))
        return decode(answers, declared)

    async def store(self, connection: Connection, step: Step, write: TileWrite) -> Mapping[str, float]:
        """Write a step's rows."""
        began = time.perf_counter()
        if step is Step.SOURCES:
            await self._copy(connection, self._tables["DIASource"], write.sources)
            return {"store_source_s": time.perf_counter() - began}
        if step is Step.FORCED:
            await self._copy(connection, self._tables["DIAForcedSource"], write.forced)
            return {"store_forced_s": time.perf_counter() - began}
        if self._last is not None and len(write.objects):
            rows = as_table(write.objects, self._last)
            await self._update(connection, self._schema, self._last, rows, write.known)
        updated = time.perf_counter()
        if self._last is None:
            await self._end_versions(connection, write)
        await self._copy(connection, self._tables["DIAObject"], write.objects)
        return {"store_last_s": updated - began, "store_object_s": time.perf_counter() - updated}

    async def _end_versions(self, connection: Connection, write: TileWrite) -> None:
        """The paper's UPDATE of the versions that were the last ones."""
        ids = write.objects["diaObjectId"][write.known]
        if len(ids):
            await connection.execute(
                f"UPDATE {quoted(self._schema, 'DIAObject')} SET {quoted('validityEnd')} = {write.time_ns}"
                f" WHERE {quoted('diaObjectId')} = ANY({ids_sql(np.sort(ids))}) AND {quoted('validityEnd')} IS NULL"
            )

    async def _copy(self, connection: Connection, table: Table, rows: Array) -> None:
        if len(rows):
            payload = encode(rows, table)
            await copy_in(connection, table.name, payload, schema=self._schema, columns=table.dtype.names or ())

    def forget(self) -> None:
        """Nothing is remembered."""

    async def expire(self, connection: Connection, before_ns: int) -> bool:
        """Nothing is dropped, as in the paper."""
        return True

    async def uncompacted(self, connection: Connection, before_ns: int) -> Sequence[tuple[str, int]]:
        """None: there are no packs."""
        return ()

    async def compact(self, connection: Connection, table: str, period: int) -> Compacted | None:
        """Nothing is to be compacted."""
        raise StoreError("rows of the paper's index modes have nothing to be compacted")

    async def count(self, connection: Connection, table: str) -> int:
        """Rows of a table, counted."""
        return int(await connection.fetchval(f"SELECT count(*) FROM {quoted(self._schema, table)}"))

    async def size(self, connection: Connection, table: str) -> TableSize:
        """The statistics' rows, and bytes with TOAST."""
        found = await connection.fetchrow(SIZE, quoted(self._schema, table))
        assert found is not None
        return TableSize(**found)

    async def whole(self, connection: Connection, table: str) -> Array:
        """All rows of a table, in the order of its key."""
        declared = self._tables[table]
        columns, key = names_sql(declared.dtype.names), names_sql(declared.key)
        query = f"SELECT {columns} FROM {quoted(self._schema, table)} ORDER BY {key}"
        return decode([await copied_text(connection, query)], declared)

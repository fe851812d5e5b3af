"""The index mode `partitioned`: packed records by period, coarse pixel, visit and tile, a partition a period.

What a tile of a visit wrote into one coarse pixel is one row of six columns, whose `records` hold the rows of the
paper's table as they are in memory (little-endian, no padding). A read takes whole packs of the pixels of its region
and trims them here; neither end touches a record by itself. Decision 0037 has the measurements.
"""

import logging
import time
from collections.abc import Mapping, Sequence

import asyncpg

from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.schema import lock_schema
from backends.postgresql.visits.compaction import (
    COLUMNS,
    DROP_LOCK_TIMEOUT,
    INLINE,
    NOTES,
    PARTITIONS,
    SAMPLE_BYTES,
    Compaction,
    encode_packs,
    joined,
    of_each,
    packs_name,
    quoted_packs,
)
from backends.postgresql.visits.tables import DURABLE, copy_in, create_views, has_table
from backends.visits.compaction import Part
from backends.visits.rows import (
    SECONDS,
    STEP_TABLES,
    by_pixel,
    in_key_order,
    newest_of_each,
    of_history,
    tables_by_name,
    written,
)
from schemas.api.visits import TableSize
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import Compacted, History, Region, TileWrite
from schemas.visits.tables import DIA_OBJECT_LAST, IndexMode, Step

log = logging.getLogger(__name__)

COLUMNS_SQL = """
    period int4, pixel int8, visit int8, tile int4, n int4 NOT NULL, records bytea NOT NULL,
    PRIMARY KEY (pixel, visit, tile, period)
"""
SIZE = """
    SELECT coalesce(sum(pg_table_size(p.relid)), 0)::int8 AS table_bytes,
           coalesce(sum(pg_indexes_size(p.relid)), 0)::int8 AS index_bytes,
           coalesce(sum(greatest(c.reltuples, s.n_live_tup, 0)), 0)::int8 AS packs
    FROM pg_partition_tree(to_regclass($1)) p JOIN pg_class c ON c.oid = p.relid
    LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid WHERE p.isleaf
"""


class PackTables:
    """A table of packs for each of the four tables, and a view of its rows by the table's own name."""

    def __init__(self, visits: VisitsConfig) -> None:
        self._schema = visits.schema_name
        self._tables = tables_by_name(visits)
        self._period_ns = visits.period_ns
        self._made: set[int] = set()
        self._compaction = Compaction(self._schema, self._tables, self._period_ns)

    def create(self) -> list[str]:
        """Partitioned tables, without partitions yet, and the views."""
        self._made.clear()
        statements = []
        for table in self._tables.values():
            name = self._packs(table.name)
            statements += [
                f"CREATE TABLE {name} ({COLUMNS_SQL}) PARTITION BY LIST (period)",
                # Random mantissas do not compress, and what is not compressed can be read in part.
                f"ALTER TABLE {name} ALTER COLUMN records SET STORAGE EXTERNAL",
            ]
        return [*statements, *create_views(self._schema, self._tables.values())]

    def added(self) -> Mapping[str, str]:
        """The notes of what is compacted."""
        return {NOTES: self._compaction.create()}

    def forget(self) -> None:
        """Look again which partitions there are."""
        self._made.clear()

    async def begin(self, connection: Connection, time_ns: int) -> None:
        """Make the partitions of a period."""
        period = time_ns // self._period_ns
        if period in self._made:
            return
        if not await self._is_there(connection, period):
            async with connection.transaction():
                await connection.execute(f"{DURABLE}; {lock_schema(self._schema)}")
                if not await self._is_there(connection, period):
                    await connection.execute(";".join(self._create_partitions(period)))
        self._made.add(period)

    async def _is_there(self, connection: Connection, period: int) -> bool:
        return await has_table(connection, self._schema, packs_name(next(iter(self._tables)), period))

    def _create_partitions(self, period: int) -> list[str]:
        # Attached and not made in place: that lets others read and write the table meanwhile.
        return [
            statement
            for table, whole in ((table, self._packs(table)) for table in self._tables)
            for statement in (
                f"CREATE TABLE {self._packs(table, period)} (LIKE {whole} INCLUDING ALL) {INLINE}",
                f"ALTER TABLE {whole} ATTACH PARTITION {self._packs(table, period)} FOR VALUES IN ({period})",
            )
        ]

    async def objects(self, connection: Connection, region: Region) -> Array:
        """The newest versions that are packed, LAST_DTYPE."""
        found = await connection.fetch(
            f"SELECT visit, n, records FROM {self._packs(DIA_OBJECT_LAST.name)} WHERE pixel = ANY($1::int8[])",
            region.pixels.tolist(),
        )
        return newest_of_each(joined(found, DIA_OBJECT_LAST), of_each(found, "visit"))

    async def history(self, connection: Connection, table: str, history: History) -> Array:
        """Rows of the ids, out of the packs of the pixels they lie in."""
        # The sum keeps the plan a bitmap, which reads the table in its own order and ahead: a plan for any visits takes
        # their range to be small, and would then jump from pack to pack. A compacted pack has other visits, too.
        found = await connection.fetch(
            f"SELECT visit, n, records FROM {self._packs(table)}"
            " WHERE pixel = ANY($1::int8[]) AND period >= $2 AND visit + 0 >= $3",
            *(history.region.pixels.tolist(), history.since_ns // self._period_ns, history.since_visit),
        )
        return of_history(joined(found, self._tables[table]), history)

    async def store(self, connection: Connection, step: Step, write: TileWrite) -> Mapping[str, float]:
        """Write a step's packs."""
        seconds = {}
        for name in STEP_TABLES[step]:
            began = time.perf_counter()
            rows, pixels = written(write, self._tables[name], IndexMode.PARTITIONED)
            if len(rows):
                period = write.time_ns // self._period_ns
                packs = (Part(pixel, write.tile, records) for pixel, records in by_pixel(rows, pixels))
                payload = encode_packs(packs, period=period, visit=write.visit)
                await copy_in(connection, packs_name(name, period), payload, schema=self._schema, columns=COLUMNS)
            seconds[SECONDS[name]] = time.perf_counter() - began
        return seconds

    async def expire(self, connection: Connection, before_ns: int) -> bool:
        """Drop the partitions of periods that end before a time; False at the first that somebody reads."""
        for table in self._tables:
            for partition in await connection.fetch(PARTITIONS, self._packs(table)):
                is_over = (partition["period"] + 1) * self._period_ns <= before_ns
                if is_over and not await self._drop(connection, table, partition):
                    return False
        return True

    async def _drop(self, connection: Connection, table: str, partition: asyncpg.Record) -> bool:
        name, period = partition
        try:
            async with connection.transaction():
                await connection.execute(
                    f"SET LOCAL lock_timeout = '{DROP_LOCK_TIMEOUT}'; DROP TABLE {quoted(self._schema, name)};"
                    f" {self._compaction.forget(table, period)}"
                )
        except asyncpg.LockNotAvailableError:
            log.info("partition %s is being read, and is dropped another time", name)
            return False
        return True

    async def uncompacted(self, connection: Connection, before_ns: int) -> Sequence[tuple[str, int]]:
        """Tables and periods that ended before a time and can be compacted."""
        async with connection.transaction():
            return await self._compaction.uncompacted(connection, before_ns)

    async def compact(self, connection: Connection, table: str, period: int) -> Compacted | None:
        """Rewrite a table's partition."""
        return await self._compaction.compact(connection, table, period)

    async def count(self, connection: Connection, table: str) -> int:
        """Records that are packed in a table's packs."""
        return int(await connection.fetchval(f"SELECT coalesce(sum(n), 0)::int8 FROM {self._packs(table)}"))

    async def size(self, connection: Connection, table: str) -> TableSize:
        """Records by the statistics' packs and a sample of them, and bytes with TOAST and its index."""
        found = await connection.fetchrow(SIZE, self._packs(table))
        assert found is not None
        percent = 100 * SAMPLE_BYTES / max(SAMPLE_BYTES, found["table_bytes"])
        rows, packs = await connection.fetchrow(
            f"SELECT coalesce(sum(n), 0)::int8, count(*) FROM {self._packs(table)} TABLESAMPLE SYSTEM ($1)", percent
        ) or (0, 0)
        if percent < 100 and packs:
            rows = rows * found["packs"] // packs
        return TableSize(rows=rows, table_bytes=found["table_bytes"], index_bytes=found["index_bytes"])

    async def whole(self, connection: Connection, table: str) -> Array:
        """All rows of a table, in the order of its key; of DIAObjectLast the newest of each object."""
        declared = self._tables[table]
        found = await connection.fetch(f"SELECT visit, n, records FROM {self._packs(table)}")
        rows = joined(found, declared)
        if table == DIA_OBJECT_LAST.name:
            rows = newest_of_each(rows, of_each(found, "visit"))
        return in_key_order(rows, declared)

    def _packs(self, table: str, period: int | None = None) -> str:
        return quoted_packs(self._schema, table, period)

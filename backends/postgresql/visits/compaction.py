"""Packs as binary COPY, their partitions, and compaction: a period that ended is rewritten, and takes its old place.

A row is built a pack at a time and not a record at a time. All of a compaction is one transaction: whatever cuts it
short leaves the old partition, and nothing of the new one.
"""

import logging
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import asyncpg
import numpy as np

from backends.postgresql.protocol.connection import Connection, report_counts
from backends.postgresql.protocol.copy import SIGNATURE, TRAILER
from backends.postgresql.protocol.sql import literal, quoted
from backends.postgresql.visits.tables import copy_in
from backends.visits.compaction import COMPACTED, Part, PixelPacks, chunks, parts, worth_it
from schemas.readings import Array
from schemas.visits.records import Compacted, Packed
from schemas.visits.tables import Table

COLUMNS = ("period", "pixel", "visit", "tile", "n", "records")
_HEAD = struct.Struct(">hiiiqiqiiiii")


def encode_packs(packs: Iterable[Part], *, period: int, visit: int) -> Array:
    """Lay out packs in the order they come in; uint8."""
    parts: list[bytes | memoryview] = [SIGNATURE]
    for pixel, tile, records in packs:
        numbers = (4, period, 8, pixel, 8, visit, 4, tile, 4, len(records))
        parts += [_HEAD.pack(len(COLUMNS), *numbers, records.nbytes), records.view(np.uint8).data]
    return np.frombuffer(b"".join([*parts, TRAILER]), np.uint8)


INLINE = "WITH (toast_tuple_target = 8160)"
"""Packs that fit a page stay in the table: a look-up in TOAST costs more than its 2 kB are worth."""
DROP_LOCK_TIMEOUT = "2s"
"""A partition that somebody reads is dropped another time: whoever wants to read after would wait for us."""
PARTITIONS = """
    SELECT c.relname AS name, substring(pg_get_expr(c.relpartbound, c.oid) FROM '-?[0-9]+')::int4 AS period
    FROM pg_partition_tree(to_regclass($1)) p JOIN pg_class c ON c.oid = p.relid WHERE p.isleaf
"""
"""Asked with a table's quoted name: its partitions, or itself, without a period, where it has none."""
SAMPLE_BYTES = 4 * 1024 * 1024
"""How much of a table is looked at to tell how many records a pack has."""


def packs_name(table: str, period: int | None = None) -> str:
    """Name of a table of packs, or of its partition of a period."""
    return f"{table}Packs" if period is None else f"{table}Packs${period}"


def quoted_packs(schema: str, table: str, period: int | None = None) -> str:
    """The same with its schema, as SQL has it."""
    return quoted(schema, packs_name(table, period))


def joined(found: list[Any], table: Table) -> Array:
    """Records of packs as one array of `table.dtype`."""
    return np.frombuffer(b"".join([pack["records"] for pack in found]), table.dtype)


def of_each(found: list[Any], column: str) -> Array:
    """A column of packs once for each of their records; int64."""
    values = np.array([pack[column] for pack in found], np.int64)
    return np.repeat(values, [pack["n"] for pack in found])


log = logging.getLogger(__name__)

NOTES = "VisitCompactions"
"""Which partitions need no compaction any more: it was done, or their packs are large as they are."""
MOST_BYTES = 4020
"""Of a pack's records, so that a page takes two rows of 4080 bytes: 24 are a row's header, 32 the five numbers, 4 the
length of the records. They stay in the table (`INLINE`). With one a page, what is left of a pixel takes a page of its
own too often: 9 % more pages of DIASource."""
CHECK = "of_period"
NO_ORDER = "ALTER COLUMN pixel SET STATISTICS 0"
"""Where the planner knows that packs lie in the order of pixels, it goes through the index, and each page is waited
for. A bitmap has pages read ahead: with more data than memory that took a fifth less."""
SCANS = "SET LOCAL enable_seqscan = on"
BITMAPS = "SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off"
"""The pixels of a chunk lie all over the old partition: a bitmap reads its pages in their order, each once."""


class Compaction:
    """Compacts the tables of packs of one schema; each method uses the connection it is given."""

    def __init__(self, schema: str, tables: Mapping[str, Table], period_ns: int) -> None:
        self._schema = schema
        self._tables = tables
        self._period_ns = period_ns
        self._notes = quoted(schema, NOTES)

    def create(self) -> str:
        """Statement that makes the table of notes."""
        return f"CREATE TABLE {self._notes} (name text, period int4, PRIMARY KEY (name, period))"

    def forget(self, table: str, period: int) -> str:
        """Statement that removes the note of a partition that is dropped."""
        return f"DELETE FROM {self._notes} WHERE name = {literal(table)} AND period = {period}"

    async def uncompacted(self, connection: Connection, before_ns: int) -> Sequence[tuple[str, int]]:
        """Tables and periods to compact, in order of time; those of large packs are noted, and never looked at again.

        Call it in a transaction.
        """
        noted = {(note["name"], note["period"]) for note in await connection.fetch(f"SELECT * FROM {self._notes}")}
        ended = {
            (table, partition["period"])
            for table in COMPACTED
            for partition in await connection.fetch(PARTITIONS, quoted_packs(self._schema, table))
            if (partition["period"] + 1) * self._period_ns <= before_ns
        }
        return await worth_it(
            ended - noted, self._tables, partial(self._sample, connection), partial(self._note, connection)
        )

    async def _sample(self, connection: Connection, table: str, period: int) -> Packed:
        """Some of a partition's packs; all of them if it is small."""
        name = quoted_packs(self._schema, table, period)
        size = await connection.fetchval("SELECT pg_relation_size(to_regclass($1))", name)
        packs, records = await connection.fetchrow(
            f"SELECT count(*), coalesce(sum(n), 0)::int8 FROM {name} TABLESAMPLE SYSTEM ($1)",
            100 * SAMPLE_BYTES / max(SAMPLE_BYTES, size),
        ) or (0, 0)
        return Packed(packs=packs, records=records)

    async def _note(self, connection: Connection, table: str, period: int) -> None:
        await connection.execute(f"INSERT INTO {self._notes} VALUES ($1, $2) ON CONFLICT DO NOTHING", table, period)

    async def compact(self, connection: Connection, table: str, period: int) -> Compacted | None:
        """Rewrite a partition; None when somebody holds it, or the table when the two are exchanged."""
        try:
            async with connection.transaction():
                compacted = await self._compact(connection, table, period)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            log.info("partition %s is in use, and is compacted another time", packs_name(table, period))
            return None
        # Now, and not when autovacuum comes by in the middle of a visit.
        await report_counts(connection)
        await connection.execute(f"ANALYZE {quoted_packs(self._schema, table, period)}")
        return compacted

    async def _compact(self, connection: Connection, table: str, period: int) -> Compacted:
        old = quoted_packs(self._schema, table, period)
        # Others read on. Nobody else may compact it, and what is left of a visit whose process was killed has to be
        # over: it would write what we do not see.
        await connection.execute(
            f"SET LOCAL lock_timeout = '{DROP_LOCK_TIMEOUT}'; LOCK TABLE {old} IN SHARE ROW EXCLUSIVE MODE; {SCANS}"
        )
        found = await connection.fetch(
            f"SELECT pixel, count(*) AS packs, sum(n)::int8 AS records, max(visit) AS visit FROM {old}"
            " GROUP BY pixel ORDER BY pixel"
        )
        pixels = [PixelPacks(row["pixel"], row["packs"], row["records"]) for row in found]
        before = Packed(packs=sum(each.packs for each in pixels), records=sum(each.records for each in pixels))
        if await self._is_noted(connection, table, period):
            return Compacted(before=before, after=before)
        # The highest visit: whoever asks for packs since a visit gets all that may hold it.
        newest = max((row["visit"] for row in found), default=0)
        new = f"{packs_name(table, period)}$new"
        await connection.execute(
            f"CREATE TABLE {quoted(self._schema, new)} (LIKE {old} INCLUDING ALL,"
            f" CONSTRAINT {CHECK} CHECK (period = {period})) {INLINE};"
            f" ALTER TABLE {quoted(self._schema, new)} {NO_ORDER}; {BITMAPS}"
        )
        after = Packed(packs=0, records=0)
        for first, last in chunks(pixels, self._tables[table]):
            made = await self._read(connection, old, self._tables[table], first, last)
            # Frozen rows are there for every snapshot, also for one that is older than this transaction.
            payload = encode_packs(made, period=period, visit=newest)
            await copy_in(connection, new, payload, schema=self._schema, columns=COLUMNS, freeze=True)
            after = Packed(
                packs=after.packs + len(made), records=after.records + sum(len(part.records) for part in made)
            )
        await self._exchange(connection, table, period, new)
        return Compacted(before=before, after=after)

    async def _is_noted(self, connection: Connection, table: str, period: int) -> bool:
        query = f"SELECT EXISTS (SELECT FROM {self._notes} WHERE name = $1 AND period = $2)"
        return bool(await connection.fetchval(query, table, period))

    async def _read(self, connection: Connection, old: str, table: Table, first: int, last: int) -> list[Part]:
        # In any order: `parts` brings the records into theirs.
        found = await connection.fetch(
            f"SELECT pixel, visit, n, records FROM {old} WHERE pixel BETWEEN $1 AND $2", first, last
        )
        rows, visits, pixels = joined(found, table), of_each(found, "visit"), of_each(found, "pixel")
        return list(parts(rows, visits, pixels, table, MOST_BYTES))

    async def _exchange(self, connection: Connection, table: str, period: int, new: str) -> None:
        """Put the new partition in the place of the old one, with the note that it is done.

        Dropping locks the whole table for whoever reads, until this transaction ends; that is all that is left of it.
        By the CHECK the server knows, without reading, what the new partition holds.
        """
        name = packs_name(table, period)
        there = quoted(self._schema, name)
        await self._note(connection, table, period)
        await connection.execute(
            f"DROP TABLE {there}; ALTER TABLE {quoted(self._schema, new)} RENAME TO {quoted(name)};"
            f" ALTER TABLE {quoted_packs(self._schema, table)} ATTACH PARTITION {there} FOR VALUES IN ({period});"
            f" ALTER TABLE {there} DROP CONSTRAINT {CHECK}"
        )

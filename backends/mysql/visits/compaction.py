"""Compaction of packs: those of a period that ended are rewritten into a staging table, which takes their place.

ALTER TABLE ... EXCHANGE PARTITION swaps a partition and a table of the same form. It moves files, not rows, looks first
whether the rows belong into the partition, and a server that crashes meanwhile undoes it when it starts (MariaDB's log
of DDL, https://mariadb.com/kb/en/atomic-ddl/; MySQL's is atomic). So a partition always has the old packs or the new.
A note says that it has the new; without one, after a crash, they are compacted once more, which gives the same.

A period of a table of packs is a partition, made before the first visit of the period, and dropped as a whole.
"""

import logging
from collections.abc import Sequence
from functools import partial

from backends.base import StoreUnavailable
from backends.mysql.protocol.bulk import ROOM
from backends.mysql.protocol.sql import literal, quoted
from backends.mysql.visits.packs import PLACED, Pack, PackPackets, send_packs
from backends.mysql.visits.session import Session
from backends.mysql.visits.tables import (
    COMPACTIONS,
    NO_PERIOD,
    add_periods,
    create_staging,
    drop_periods,
    packs_of,
    partition_name,
    staging_name,
)
from backends.visits.compaction import COMPACTED, PixelPacks, chunks, parts, worth_it
from backends.visits.rows import tables_by_name
from schemas.config.visits import VisitsConfig
from schemas.visits.records import Compacted, Packed
from schemas.visits.tables import Table

log = logging.getLogger(__name__)

AHEAD = 2
"""So many periods are made ahead. To make one, too, has to wait for every open transaction that has read the table."""


class Periods:
    """Makes and drops partitions; whoever calls `make` or `drop` keeps all others from doing so."""

    def __init__(self, schema: str, tables: Sequence[Table], period_ns: int) -> None:
        self._schema = schema
        self._tables = [packs_of(table) for table in tables]
        self._period_ns = period_ns
        self._made: set[int] = set()
        self._dropped_to = NO_PERIOD

    def forget(self) -> None:
        """Look again: the tables are others."""
        self._made, self._dropped_to = set(), NO_PERIOD

    def missing(self, time_ns: int, *, ahead: bool = False) -> list[int]:
        """The period of a time, or those after it that are made ahead, where it is not known to be there."""
        period = time_ns // self._period_ns
        wanted = range(period + 1, period + 1 + AHEAD) if ahead else (period,)
        return [each for each in wanted if each not in self._made]

    async def make(self, session: Session, periods: Sequence[int]) -> str | None:
        """Make the partitions of periods where they are missing; gives a table that somebody reads meanwhile."""
        for table in self._tables:
            there = await self.there(session, table)
            new = [period for period in periods if period not in there]
            if new and not await session.run_briefly(add_periods(self._schema, table, new)):
                return table
        self._made.update(periods)
        return None

    def new_end(self, before_ns: int) -> bool:
        """Whether a period may end before a time, and not before one that `drop` had already."""
        return before_ns // self._period_ns > self._dropped_to

    async def drop(self, session: Session, before_ns: int) -> bool:
        """Drop the partitions of periods that end at a time or before; False at the first table that is being read."""
        first_kept = before_ns // self._period_ns
        self._made = {period for period in self._made if period >= first_kept}
        for table in self._tables:
            old = sorted(period for period in await self.there(session, table) if NO_PERIOD < period < first_kept)
            if old and not await session.run_briefly(drop_periods(self._schema, table, old)):
                log.info("table %s is being read, and its old partitions are dropped another time", table)
                return False
        self._dropped_to = first_kept
        return True

    async def there(self, session: Session, table: str) -> set[int]:
        """The periods that a table of packs has partitions of, and NO_PERIOD."""
        found = await session.fetch(
            "SELECT PARTITION_DESCRIPTION FROM information_schema.PARTITIONS"
            f" WHERE TABLE_SCHEMA = {literal(self._schema)} AND TABLE_NAME = {literal(table)}"
        )
        return {int(period) for (period,) in found}


MOST_BYTES = 1024 * 1024
"""Of a pack: a blob has pages of its own, of which only the last is not full."""
SAMPLE = 1000
"""So many packs of a period are looked at for how large they are."""


class Compaction:
    """Rewrites packs of periods, one at a time in a schema.

    Whoever calls `uncompacted`, `make_staging` or `put_in_place` keeps all others from doing so, and from making and
    dropping partitions: a server may still have the exchange before it of a connection that broke, which must not find
    a staging table that is not whole yet.
    """

    def __init__(self, visits: VisitsConfig, periods: Periods) -> None:
        self._schema = visits.schema_name
        self._tables = {name: table for name, table in tables_by_name(visits).items() if name in COMPACTED}
        self._periods = periods
        self._period_ns = visits.period_ns
        self._notes = quoted(self._schema, COMPACTIONS)

    async def uncompacted(self, session: Session, before_ns: int) -> Sequence[tuple[str, int]]:
        """Tables and periods that can be compacted; what a compaction left that was cut short is removed."""
        for table in self._tables.values():
            await session.run(f"DROP TABLE IF EXISTS {self._staging(table)}")
        noted = {(str(name), int(period)) for name, period in await session.fetch(f"SELECT * FROM {self._notes}")}
        ended = {
            (name, period)
            for name, table in self._tables.items()
            for period in await self._periods.there(session, packs_of(table))
            if period > NO_PERIOD and (period + 1) * self._period_ns <= before_ns
        }
        return await worth_it(ended - noted, self._tables, partial(self._sample, session), partial(self._note, session))

    async def _sample(self, session: Session, name: str, period: int) -> Packed:
        some = f"(SELECT n FROM {self._partition(self._tables[name], period)} LIMIT {SAMPLE})"
        return await self._packed(session, some)

    async def make_staging(self, session: Session, name: str) -> None:
        """Make an empty staging table for the packs of a table, in place of one that is left."""
        table = self._tables[name]
        await session.run(f"DROP TABLE IF EXISTS {self._staging(table)}")
        await session.run(create_staging(self._schema, table))

    async def write_staging(self, session: Session, name: str, period: int) -> Compacted:
        """Rewrite the packs of a period into the staging table; a transaction a chunk."""
        table = self._tables[name]
        rows = await session.fetch(
            f"SELECT pixel, COUNT(*), CAST(SUM(n) AS SIGNED), MAX(visit) FROM {self._partition(table, period)}"
            " GROUP BY pixel ORDER BY pixel"
        )
        found = [PixelPacks(*each) for *each, _ in rows]
        # So that whoever asks for a visit of the period, or a later one than its first, gets the pack.
        visit = max((last for *_, last in rows), default=0)
        written = Packed(packs=0, records=0)
        for first, last in chunks(found, table):
            packs = await self._merged(session, table, period, visit, f"pixel BETWEEN {first} AND {last}")
            await session.run("START TRANSACTION")
            await send_packs(session, self._staging(table), packs)
            await session.run("COMMIT")
            written = Packed(packs=written.packs + len(packs), records=written.records + sum(pack.n for pack in packs))
        before = Packed(packs=sum(each.packs for each in found), records=sum(each.records for each in found))
        return Compacted(before=before, after=written)

    async def put_in_place(self, session: Session, name: str, period: int, written: Packed) -> bool:
        """Put the new packs in the place of the old; False, and all as it was, where somebody is reading them.

        Raises:
            StoreUnavailable: the staging table is not as it was written: another process compacts, too.
        """
        table = self._tables[name]
        if await self._packed(session, self._staging(table)) != written:
            raise StoreUnavailable(f"another process compacts {name} in schema {self._schema!r}")
        exchanged = await session.run_briefly(
            f"ALTER TABLE {quoted(self._schema, packs_of(table))}"
            f" EXCHANGE PARTITION {quoted(partition_name(period))} WITH TABLE {self._staging(table)}"
        )
        if exchanged:
            await self._note(session, name, period)
        await session.run(f"DROP TABLE {self._staging(table)}")
        return exchanged

    async def forget(self, session: Session, before_ns: int) -> None:
        """Remove the notes of periods that end at a time or before."""
        await session.run(f"DELETE FROM {self._notes} WHERE period < {before_ns // self._period_ns}")

    async def _merged(self, session: Session, table: Table, period: int, visit: int, where: str) -> list[Pack]:
        """The compacted packs of some pixels, in order of the key."""
        packets = PackPackets(PLACED)
        await session.select(
            f"SELECT {', '.join(PLACED.names or ())}, records FROM {self._partition(table, period)}"
            f" FORCE INDEX (PRIMARY) WHERE {where} ORDER BY pixel, visit, tile",
            packets,
        )
        rows, heads = packets.rows(table.dtype)
        most = min(MOST_BYTES, session.connection.max_packet - 2 * ROOM)
        return [
            Pack(period, part.pixel, visit, part.tile, len(part.records), part.records.tobytes())
            for part in parts(rows, heads["visit"], heads["pixel"], table, most)
        ]

    async def _packed(self, session: Session, source: str) -> Packed:
        ((packs, records),) = await session.fetch(
            f"SELECT COUNT(*), CAST(COALESCE(SUM(n), 0) AS SIGNED) FROM {source} some"
        )
        return Packed(packs=packs, records=records)

    async def _note(self, session: Session, name: str, period: int) -> None:
        await session.run(f"REPLACE INTO {self._notes} VALUES ({literal(name)}, {period})")

    def _partition(self, table: Table, period: int) -> str:
        return f"{quoted(self._schema, packs_of(table))} PARTITION ({quoted(partition_name(period))})"

    def _staging(self, table: Table) -> str:
        return quoted(self._schema, staging_name(table))

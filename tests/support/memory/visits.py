"""A store of visits in memory, for tests: it keeps every promise of `VisitStore` but to last.

It keeps what was written as it was written and answers from that, so that it is simple enough to hold the databases
against.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from backends.base import StoreError
from backends.visits.base import VisitDone, VisitsLost, see_nothing_lost
from backends.visits.rows import (
    STEP_TABLES,
    as_table,
    in_key_order,
    newest_of_each,
    of_ids,
    tables_by_name,
    written,
)
from backends.visits.store import check_settings, settings_of
from schemas.api.visits import TableSize
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import POINTING_DTYPE, Compacted, History, Region, Seconds, TileWrite, VisitRecord
from schemas.visits.tables import DIA_OBJECT_LAST, IndexMode, Step, Table


@dataclass(kw_only=True)
class Schema:
    """What one schema holds; stores that share it are connections to one database. settings: None before `create`."""

    settings: str | None = None
    visits: dict[int, VisitRecord] = field(default_factory=dict)
    marks: set[tuple[int, int, Step]] = field(default_factory=set)
    writes: dict[tuple[int, int, Step], TileWrite] = field(default_factory=dict)


class MemoryVisitStore:
    """A store of visits that forgets everything with its process; its methods are those of `VisitStore`."""

    def __init__(self, visits: VisitsConfig, schema: Schema | None = None) -> None:
        self._settings = visits
        self._mode = visits.index_mode
        self._tables = tables_by_name(visits)
        self._schema = schema if schema is not None else Schema()

    async def create(self) -> None:
        """Keep the settings, or check those that are there."""
        if self._schema.settings is None:
            self._schema.settings = settings_of(self._settings)
        check_settings(self._schema.settings, self._settings)

    async def check(self) -> None:
        """Check the settings that are there."""
        if self._schema.settings is not None:
            check_settings(self._schema.settings, self._settings)

    async def connect(self) -> None:
        """See that `create` was called."""
        if self._schema.settings is None:
            raise StoreError("nothing was created yet")

    async def close(self) -> None:
        """Nothing is to be given back."""

    async def hold(self) -> None:
        """Nobody else is there."""

    async def release(self) -> None:
        """Nothing is held."""

    async def last_visit(self) -> VisitRecord | None:
        """The last visit that is done."""
        return self._schema.visits[max(self._schema.visits)] if self._schema.visits else None

    async def first_visit_since(self, time_ns: int) -> int | None:
        """Number of the first visit that is done and was taken at `time_ns` or later."""
        return min((record.visit for record in self._schema.visits.values() if record.time_ns >= time_ns), default=None)

    async def pointings(self, most: int) -> Array:
        """Where the newest visits looked."""
        newest = sorted(self._schema.visits.values(), key=lambda record: -record.visit)[:most]
        return np.array([(one.visit, one.time_ns, one.ra, one.decl) for one in newest], POINTING_DTYPE)

    async def begin(self, visit: int, time_ns: int) -> frozenset[tuple[int, Step]]:
        """What an earlier try committed of a visit."""
        if visit in self._schema.visits:
            raise VisitDone(visit)
        if visit and visit - 1 not in self._schema.visits:
            raise VisitsLost(visit - 1)
        return frozenset((tile, step) for number, tile, step in self._schema.marks if number == visit)

    async def objects(self, region: Region) -> Array:
        """Last versions in a region, with the columns that the pipeline needs."""
        rows, visits, pixels = self._rows(self._last())
        by_pixel = self._mode is IndexMode.PARTITIONED
        within = np.isin(pixels, region.pixels) if by_pixel else in_ranges(rows["pixelId"], region.ranges)
        return as_table(newest_of_each(rows[within], visits[within]), DIA_OBJECT_LAST)

    async def sources(self, history: History) -> Array:
        """DIASource rows of a history."""
        return self._history("DIASource", history)

    async def forced_sources(self, history: History) -> Array:
        """DIAForcedSource rows of a history."""
        return self._history("DIAForcedSource", history)

    async def write(self, write: TileWrite) -> Seconds:
        """Keep the steps that are not there yet."""
        for step in write.steps:
            self._schema.writes.setdefault((write.visit, write.tile, step), write)
            self._schema.marks.add((write.visit, write.tile, step))
        return {}

    async def finish(self, record: VisitRecord, steps: int | None = None) -> None:
        """Mark a visit as done, and forget the marks of its steps."""
        if record.visit not in self._schema.visits:
            marked = sum(visit == record.visit for visit, _, _ in self._schema.marks)
            see_nothing_lost(record.visit, not record.visit or record.visit - 1 in self._schema.visits, marked, steps)
        self._schema.visits[record.visit] = record
        self._schema.marks = {mark for mark in self._schema.marks if mark[0] != record.visit}

    async def expire(self, before_ns: int) -> bool:
        """In `partitioned`: forget the periods that end before a time."""
        if self._mode is not IndexMode.PARTITIONED:
            return True
        period_ns = self._settings.period_ns
        self._schema.writes = {
            key: write
            for key, write in self._schema.writes.items()
            if (write.time_ns // period_ns + 1) * period_ns > before_ns
        }
        return True

    async def prepare(self, time_ns: int) -> bool:
        """Nothing has to be made ahead."""
        return True

    async def uncompacted(self, before_ns: int) -> Sequence[tuple[str, int]]:
        """None: in memory nothing lies apart."""
        return ()

    async def compact(self, table: str, period: int) -> Compacted | None:
        """Nothing is to be compacted."""
        raise StoreError("visits in memory have nothing to be compacted")

    async def counts(self) -> Mapping[str, int]:
        """Rows of each table; in packs all that are packed, so of DIAObjectLast every version."""
        return {
            table.name: len(self._rows(table)[0])
            if self._mode is IndexMode.PARTITIONED
            else len(await self.whole(table.name))
            for table in self._tables.values()
        }

    async def sizes(self) -> Mapping[str, TableSize]:
        """Bytes of the arrays that are kept; there are no indexes."""
        return {
            table.name: TableSize(rows=len(rows), table_bytes=rows.nbytes, index_bytes=0)
            for table in self._tables.values()
            for rows in (self._rows(table)[0],)
        }

    async def whole(self, table: str) -> Array:
        """All rows of a table, in the order of its key; of DIAObjectLast the newest of each object."""
        declared = self._tables[table]
        rows, visits, _ = self._rows(declared)
        return in_key_order(newest_of_each(rows, visits) if table == DIA_OBJECT_LAST.name else rows, declared)

    async def drop(self) -> None:
        """Forget everything."""
        self._schema.settings = None
        for part in (self._schema.visits, self._schema.marks, self._schema.writes):
            part.clear()

    def _last(self) -> Table:
        return self._tables.get(DIA_OBJECT_LAST.name, self._tables["DIAObject"])

    def _rows(self, table: Table) -> tuple[Array, Array, Array]:
        """All rows that were written into a table, and the visit and the coarse pixel of each."""
        writes = [write for (_, _, step), write in self._schema.writes.items() if table.name in STEP_TABLES[step]]
        parts = [written(write, table, self._mode) for write in writes]
        visits = [np.full(len(rows), write.visit) for (rows, _), write in zip(parts, writes, strict=True)]
        none = np.empty(0, np.int64)
        return (
            np.concatenate([np.empty(0, table.dtype), *(rows for rows, _ in parts)]),
            np.concatenate([none, *visits]),
            np.concatenate([none, *(pixels for _, pixels in parts)]),
        )

    def _history(self, table: str, history: History) -> Array:
        rows, _, _ = self._rows(self._tables[table])
        rows = of_ids(rows, history.ids)
        within = (rows["ccdVisitId"] >= history.since_visit) & (rows["ccdVisitId"] < history.before_visit)
        return np.asarray(rows[within])


def in_ranges(pixel_ids: Array, ranges: Array) -> Array:
    """Say which HTM indexes (int64, shape (n,)) lie in ranges as `Region.ranges` has them; bool, shape (n,)."""
    if not len(ranges):
        return np.zeros(len(pixel_ids), bool)
    places = np.searchsorted(ranges[:, 0], pixel_ids, side="right") - 1
    return np.asarray((places >= 0) & (pixel_ids < ranges[np.maximum(places, 0), 1]))

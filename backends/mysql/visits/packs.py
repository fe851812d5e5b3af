"""`partitioned`: tables of packs, each what one tile of one visit wrote into one coarse pixel, packed in one blob.

A visit reads the packs of its pixels, whole, with one question a table, and trims to ids and visits here. No visit
reads DIAObject, so that its packs lie in order of visits and are appended.
"""

import numpy as np

from backends.mysql.protocol.sql import quoted
from backends.mysql.visits.pack_rows import Pack, PackPackets, send_packs
from backends.mysql.visits.session import Session
from backends.mysql.visits.tables import packs_of
from backends.visits.rows import by_pixel, in_key_order, newest_of_each, of_history, tables_by_name, written
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import History, Region, TileWrite
from schemas.visits.tables import DIA_OBJECT_LAST, LAST_DTYPE


class PackTables:
    """The tables of packs."""

    def __init__(self, visits: VisitsConfig) -> None:
        self._schema = visits.schema_name
        self._mode = visits.index_mode
        self._period_ns = visits.period_ns
        self._tables = tables_by_name(visits)

    async def objects(self, session: Session, region: Region) -> Array:
        """Last versions of the objects that were detected in the periods that are there; LAST_DTYPE."""
        if not len(region.pixels):
            return np.empty(0, LAST_DTYPE)
        packs = await self._read(session, DIA_OBJECT_LAST.name, f"WHERE {_among(region.pixels)}")
        rows, heads = packs.rows(LAST_DTYPE)
        return newest_of_each(rows, heads["visit"])

    async def history(self, session: Session, name: str, history: History) -> Array:
        """DIASource or DIAForcedSource rows of a history."""
        dtype = self._tables[name].dtype
        if not len(history.ids) or not len(history.region.pixels):
            return np.empty(0, dtype)
        # As a bound of the key, a visit would make the server look up for each pixel and period how many rows it has.
        # A compacted pack has the highest visit of its period, so that there is no bound on this side of it.
        where = (
            f"WHERE {_among(history.region.pixels)} AND period >= {history.since_ns // self._period_ns}"
            f" AND visit + 0 >= {history.since_visit}"
        )
        rows, _ = (await self._read(session, name, where)).rows(dtype)
        return of_history(rows, history)

    async def write(self, session: Session, name: str, write: TileWrite) -> None:
        """Write what a tile has for one table, a pack a pixel, in ascending order of pixels."""
        rows, pixels = written(write, self._tables[name], self._mode)
        period = write.time_ns // self._period_ns
        packs = [
            Pack(period, pixel, write.visit, write.tile, len(some), some.tobytes())
            for pixel, some in by_pixel(rows, pixels)
        ]
        await send_packs(session, quoted(self._schema, packs_of(self._tables[name])), packs)

    async def count(self, session: Session, name: str) -> int:
        """Rows in the packs of a table."""
        table = quoted(self._schema, packs_of(self._tables[name]))
        ((count,),) = await session.fetch(f"SELECT COALESCE(SUM(n), 0) FROM {table}")
        return int(count)

    async def whole(self, session: Session, name: str) -> Array:
        """All rows of a table; of DIAObjectLast the newest of each object."""
        table = self._tables[name]
        rows, heads = (await self._read(session, name, "")).rows(table.dtype)
        return in_key_order(newest_of_each(rows, heads["visit"]) if name == DIA_OBJECT_LAST.name else rows, table)

    async def _read(self, session: Session, name: str, where: str) -> PackPackets:
        packets = PackPackets()
        table = quoted(self._schema, packs_of(self._tables[name]))
        await session.select(f"SELECT visit, n, records FROM {table} {where}", packets)
        return packets


def _among(pixels: Array) -> str:
    return f"pixel IN ({','.join(map(str, pixels.tolist()))})"

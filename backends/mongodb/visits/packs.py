"""`partitioned`: a document a pack, the packed records that a tile of a visit wrote into one coarse pixel.

MongoDB has no partitions, so a period is a collection: it is dropped whole, and its space goes back to the disk. `_id`
is (pixel, visit, tile, part), big-endian: the packs of neighbouring pixels stand side by side in its index.
"""

import time
from collections.abc import Mapping

import numpy as np
from bson import Binary, Int64

from backends.mongodb.protocol.documents import USER_DEFINED, NotOurDocuments
from backends.mongodb.visits.rows import joined
from backends.mongodb.visits.session import Document, Session
from backends.visits.rows import (
    SECONDS,
    STEP_TABLES,
    by_pixel,
    in_key_order,
    newest_of_each,
    of_ids,
    tables_by_name,
    written,
)
from schemas.api.visits import TableSize
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import History, Region, TileWrite
from schemas.visits.tables import DIA_OBJECT_LAST, IndexMode, Step, Table

PART_BYTES = 8 * 1024 * 1024
"""Most that the records of one document take: a pack with more is several, since a document has 16 MB at most."""
RECORDS: Document = {"_id": 0, "visit": 1, "records": 1}


class PackTables:
    """The collections of packs."""

    def __init__(self, visits: VisitsConfig) -> None:
        self._period_ns = visits.period_ns
        self._tables = tables_by_name(visits)

    async def create(self, session: Session) -> None:
        """Nothing: each period's collections are made when its first visit begins."""

    async def begin(self, session: Session, visit: int, time_ns: int) -> None:
        """Make the collections of a visit's period."""
        there = set(await session.names())
        for table in self._tables.values():
            name = _collection(table.name, time_ns // self._period_ns)
            if name not in there:
                await session.create(name)
            # Counted by its index alone; a crash may have come in between.
            await session.index(name, ("n",))

    async def objects(self, session: Session, region: Region) -> Array:
        """The newest record of each object in the pixels of a region."""
        rows, visits = await self._read(session, DIA_OBJECT_LAST, _in_pixels(region.pixels), 0)
        return newest_of_each(rows, visits)

    async def history(self, session: Session, name: str, history: History) -> Array:
        """Rows of a history."""
        within = {"visit": {"$gte": Int64(history.since_visit), "$lt": Int64(history.before_visit)}}
        wanted = {**_in_pixels(history.region.pixels), **within}
        first = history.since_ns // self._period_ns
        rows, _ = await self._read(session, self._tables[name], wanted, first)
        return of_ids(rows, history.ids)

    async def write(self, session: Session, write: TileWrite, step: Step) -> Mapping[str, float]:
        """Write a step."""
        seconds = {}
        period = write.time_ns // self._period_ns
        for name in STEP_TABLES[step]:
            began_s = time.perf_counter()
            rows, pixels = written(write, self._tables[name], IndexMode.PARTITIONED)
            packs = [
                _document(write, pixel, part, some)
                for pixel, records in by_pixel(rows, pixels)
                for part, some in enumerate(_parts(records))
            ]
            await session.insert_objects(_collection(name, period), packs)
            seconds[SECONDS[name]] = time.perf_counter() - began_s
        return seconds

    async def expire(self, session: Session, before_ns: int) -> None:
        """Drop the collections of periods that end before a time."""
        for name, period in await self._periods(session):
            if (period + 1) * self._period_ns <= before_ns:
                await session.drop(_collection(name, period))

    async def count(self, session: Session, name: str) -> int:
        """Records in all packs of a table."""
        return sum([await session.total(each, "n") for each in await self._collections(session, name)])

    async def size(self, session: Session, name: str) -> TableSize:
        """All packs of a table on the server's disk."""
        stats = [await session.stats(each) for each in await self._collections(session, name)]
        return TableSize(
            rows=await self.count(session, name),
            table_bytes=sum(int(each["storageSize"]) for each in stats),
            index_bytes=sum(int(each["totalIndexSize"]) for each in stats),
        )

    async def whole(self, session: Session, name: str) -> Array:
        """All rows of a table, in the order of its key; of DIAObjectLast the newest of each object."""
        table = self._tables[name]
        rows, visits = await self._read(session, table, {}, 0)
        return in_key_order(newest_of_each(rows, visits) if name == DIA_OBJECT_LAST.name else rows, table)

    async def _read(self, session: Session, table: Table, wanted: Document, first: int) -> tuple[Array, Array]:
        """Records from a period on, and the visit of each (int64)."""
        parts: list[Array] = []
        visits: list[Array] = []
        for name in await self._collections(session, table.name, first):
            for pack in await session.find(name, wanted, RECORDS):
                parts.append(_records(pack, table, name))
                visits.append(np.full(len(parts[-1]), pack["visit"], np.int64))
        return joined(parts, table), np.concatenate([np.empty(0, np.int64), *visits])

    async def _collections(self, session: Session, name: str, first: int = 0) -> list[str]:
        """Names of a table's collections, of the first period on, in order of time."""
        periods = sorted(period for table, period in await self._periods(session) if table == name)
        return [_collection(name, period) for period in periods if period >= first]

    async def _periods(self, session: Session) -> list[tuple[str, int]]:
        """Tables and periods that there are collections of."""
        found = (name.rpartition("Packs_") for name in await session.names())
        return [(table, int(period)) for table, _, period in found if table in self._tables and period.isdecimal()]


def _collection(table: str, period: int) -> str:
    return f"{table}Packs_{period}"


def _id(pixel: int, visit: int = 0, tile: int = 0, part: int = 0) -> Binary:
    return Binary(
        b"".join(value.to_bytes(size, "big") for value, size in ((pixel, 8), (visit, 8), (tile, 4), (part, 4))),
        USER_DEFINED,
    )


def _document(write: TileWrite, pixel: int, part: int, records: Array) -> Document:
    return {
        "_id": _id(pixel, write.visit, write.tile, part),
        "pixel": Int64(pixel),
        "visit": Int64(write.visit),
        "tile": write.tile,
        "n": len(records),
        "records": records.tobytes(),
    }


def _parts(records: Array) -> list[Array]:
    most = PART_BYTES // records.dtype.itemsize
    return [records[start : start + most] for start in range(0, len(records), most)]


def _records(pack: Document, table: Table, name: str) -> Array:
    packed = pack["records"]
    if len(packed) % table.dtype.itemsize:
        raise NotOurDocuments(f"records of collection {name!r} are not {table.dtype.itemsize} bytes long")
    return np.frombuffer(packed, table.dtype)


def _in_pixels(pixels: Array) -> Document:
    """Look for the packs of some pixels (int64, ascending): a range of `_id`s for each stretch of neighbours."""
    if not len(pixels):
        return {"_id": {"$in": []}}
    breaks = np.flatnonzero(np.diff(pixels) != 1)
    first = pixels[np.append(0, breaks + 1)].tolist()
    last = pixels[np.append(breaks, len(pixels) - 1)].tolist()
    return {"$or": [{"_id": {"$gte": _id(a), "$lt": _id(b + 1)}} for a, b in zip(first, last, strict=True)]}

"""`partitioned`: tables of packs, each what one tile of one visit wrote into one coarse pixel, packed in one blob.

A visit reads the packs of its pixels, whole, with one question a table, and trims to ids and visits here. No visit
reads DIAObject, so that its packs lie in order of visits and are appended.

In the binary protocol a pack is a row with a blob, so of any length: a Python object a pack, and none a record.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from backends.mysql.protocol.bulk import COMMAND_BYTES, ROOM, powers
from backends.mysql.protocol.connection import ERROR, HEADER, LONGEST, Packets, TooLong
from backends.mysql.protocol.records import BLOB, TYPES, NotAsMade, length_prefix
from backends.mysql.protocol.sql import quoted
from backends.mysql.visits.session import Session
from backends.mysql.visits.tables import packs_of
from backends.visits.rows import by_pixel, in_key_order, newest_of_each, of_history, tables_by_name, written
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import History, Region, TileWrite
from schemas.visits.tables import DIA_OBJECT_LAST, LAST_DTYPE

COLUMNS = "period, pixel, visit, tile, n, records"
PARAMETERS = 6
NUMBERS = ("<i4", "<i8", "<i8", "<i4", "<i4")
PARAMETER_TYPES = b"".join(bytes([code, 0]) for code in (*(TYPES[dtype] for dtype in NUMBERS), BLOB))
INDICATED = struct.Struct("<xixqxqxixix")
"""With a byte before each value that says it is no NULL, that before the blob included."""
PLAIN = struct.Struct("<iqqii")
STATEMENT_PACKS = 64

HEAD = np.dtype([("visit", "<i8"), ("n", "<i4")])
PLACED = np.dtype([("pixel", "<i8"), ("visit", "<i8"), ("n", "<i4")])
"""What a question asks of a pack beside its records, which come last."""
HEAD_AT = HEADER + 2
"""Where it begins: behind the packet's header, a zero, and the bitmap of NULLs of up to six columns."""
LONGEST_PREFIX = 9


class Pack(NamedTuple):
    """What one tile of one visit wrote into one coarse pixel: `n` packed records."""

    period: int
    pixel: int
    visit: int
    tile: int
    n: int
    records: bytes


async def send_packs(session: Session, table: str, packs: Sequence[Pack]) -> None:
    """Insert packs, and wait until the server has them."""
    into = f"INSERT INTO {table} ({COLUMNS}) VALUES "
    values = f"({','.join('?' * PARAMETERS)})"
    head = INDICATED if session.bulk else PLAIN
    rows = [head.pack(*pack[:-1]) + length_prefix(len(pack.records)) + pack.records for pack in packs]
    longest = max(map(len, rows), default=0)
    most = max(1, min(COMMAND_BYTES, session.connection.max_packet - ROOM - longest))
    for chunk in _chunks(rows, most, session.bulk):
        joined = memoryview(b"".join(chunk))
        if session.bulk:
            await session.send_bulk(into + values, PARAMETER_TYPES, joined)
        else:
            text = into + ",".join([values] * len(chunk))
            nulls = bytes(-(-PARAMETERS * len(chunk) // 8))
            await session.send_execute(text, PARAMETER_TYPES * len(chunk), nulls, joined)
    await session.answers()


def _chunks(rows: Sequence[bytes], most_bytes: int, bulk: bool) -> list[Sequence[bytes]]:
    """Cut rows into commands of `most_bytes`, beside the last row; single statements have few numbers of rows."""
    lengths = np.array([len(row) for row in rows], np.int64)
    numbers = (np.cumsum(lengths) - lengths) // most_bytes
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    found: list[Sequence[bytes]] = []
    for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(rows)], strict=True):
        at = begin
        for size in [end - begin] if bulk else powers(end - begin, STATEMENT_PACKS):
            found.append(rows[at : at + size])
            at += size
    return [chunk for chunk in found if chunk]


class PackPackets(Packets):
    """Rows of any length: what `head` has, then the records."""

    def __init__(self, head: np.dtype[np.void] = HEAD) -> None:
        super().__init__()
        self._head = head
        self._starts: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def feed(self, chunk: bytes) -> None:
        """Take more bytes."""
        self.data += chunk
        data, at, size, starts = self.data, self._at, len(self.data), self._starts
        while size - at > HEADER:
            length = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            if length == LONGEST:
                raise TooLong(f"a row takes {LONGEST} bytes or more")
            after = at + HEADER + length
            if after > size:
                break
            if data[at + HEADER]:  # a row begins with a zero
                self.ended = True
                self.error = bytes(data[at + HEADER : after]) if data[at + HEADER] == ERROR else None
                at = after
                break
            starts.append(at)
            at = after
        self._at = at

    def rows(self, dtype: np.dtype[np.void]) -> tuple[Array, Array]:
        """All records, shape (records,), and the head of the pack of each.

        Raises:
            NotAsMade: a pack has not the bytes that its number of records needs.
        """
        if not self._starts:
            return np.empty(0, dtype), np.empty(0, self._head)
        starts = np.array(self._starts, np.int64)
        ends = np.append(starts[1:], self._ended_at())
        heads = self._heads(starts + HEAD_AT)
        n = heads["n"]
        begins = ends - n * np.int64(dtype.itemsize)
        prefixes = begins - starts - HEAD_AT - self._head.itemsize
        if (n < 0).any() or (prefixes < 1).any() or (prefixes > LONGEST_PREFIX).any():
            raise NotAsMade("a pack has not the bytes of its records")
        with memoryview(self.data) as data:
            joined = b"".join([data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)])
        return np.frombuffer(joined, dtype), np.repeat(heads, n)

    def _ended_at(self) -> int:
        """Where the last row ends."""
        last, data = self._starts[-1], self.data
        return last + HEADER + (data[last] | data[last + 1] << 8 | data[last + 2] << 16)

    def _heads(self, at: Array) -> Array:
        data = np.frombuffer(self.data, np.uint8)
        return np.ascontiguousarray(data[at[:, None] + np.arange(self._head.itemsize)]).view(self._head)[:, 0]


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

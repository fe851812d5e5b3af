"""Packs in the binary protocol: rows with a blob, so of any length; a Python object a pack, and none a record."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from backends.mysql.protocol.bulk import COMMAND_BYTES, ROOM, powers
from backends.mysql.protocol.packets import ERROR, HEADER, LONGEST, Packets, TooLong
from backends.mysql.protocol.records import BLOB, TYPES, NotAsMade, length_prefix
from backends.mysql.visits.session import Session
from schemas.readings import Array

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

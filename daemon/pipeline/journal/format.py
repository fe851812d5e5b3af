"""The journal's format, as `docs/journal.md` tells it: pure functions between blocks and bytes.

A segment is a head that describes the group, then records. A record is a header of fixed size and a body: one block
(`ClosedBlock`) with its number. Everything is little-endian, and everything begins at a multiple of 8 bytes.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from schemas.batch import ClosedBlock
from schemas.ledger import ledger_dtype, pack_missing, unpack_missing
from schemas.readings import Array, InstrumentGroup, words

Buffer = bytes | memoryview

MAGIC = b"TLJRNL\x00\x01"
"""The first eight bytes of a segment; the last of them is the version of the format."""

RECORD_MAGIC = 0x4A_4C_54_89
"""The first four bytes of a record, 89 54 4C 4A: not text, so that no readings of text look like one by accident."""

HEAD: np.dtype[Any] = np.dtype([("magic", "S8"), ("length", "<u4"), ("checksum", "<u4")])
"""What a segment begins with (16 bytes); `length` bytes of JSON follow, padded with spaces, and their CRC-32."""

RECORD: np.dtype[Any] = np.dtype(
    [
        ("magic", "<u4"),
        ("header_checksum", "<u4"),  # CRC-32 of the 24 bytes that follow it
        ("body_checksum", "<u4"),  # CRC-32 of the body
        ("group_checksum", "<u4"),  # CRC-32 of the description in the segment's head
        ("sequence", "<u8"),
        ("length", "<u8"),  # bytes of the body, a multiple of 8
    ]
)
"""A record's header (32 bytes)."""

COUNTS: np.dtype[Any] = np.dtype([(name, "<u4") for name in ("triggers", "readings", "late", "revised")])
"""What a body begins with (16 bytes): how much of each part follows."""

BODY_MAX = 2**32
"""Bytes of a body that are believed; a receive buffer is thousands of times smaller."""

_CHECKED_FROM = 8
"""Offset in a record's header from which its own checksum covers it."""


class BadRecord(ValueError):
    """Bytes are not the record they should be."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a record's header says: the block's number, length and checksum of its body, and of which group it is.

    The last makes a record readable where the head of its segment is not.
    """

    sequence: int
    length: int
    checksum: int
    group_checksum: int


def describe(group: InstrumentGroup) -> dict[str, Any]:
    """Describe what the records of a segment hold; equal for groups whose records are laid out alike."""
    fields: Mapping[str, Any] = group.record.fields or {}
    return {
        "group": group.name,
        "instruments": group.size,
        "record": [[name, dtype.str, offset] for name, (dtype, offset, *_) in fields.items()],
        "record_bytes": group.record.itemsize,
        "ledger_bytes": ledger_dtype(group.size).itemsize,
    }


@lru_cache
def group_checksum(group: InstrumentGroup) -> int:
    """The checksum of a group's description, which each of its records carries."""
    return zlib.crc32(_description(group))


def segment_head(group: InstrumentGroup) -> bytes:
    """Build what a segment begins with."""
    text = _description(group)
    head = np.array([(MAGIC, len(text), group_checksum(group))], HEAD)
    return head.tobytes() + text


def _description(group: InstrumentGroup) -> bytes:
    text = json.dumps(describe(group), separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


def parse_segment_head(data: bytes) -> tuple[dict[str, Any], int]:
    """Read the beginning of a segment; return the description, and where the first record begins.

    Raises:
        BadRecord: it is none, or not whole.
    """
    if len(data) < HEAD.itemsize:
        raise BadRecord("it is shorter than the head of a segment")
    head = np.frombuffer(data, HEAD, count=1)[0]
    if data[: len(MAGIC)] != MAGIC:
        raise BadRecord("it does not begin as a segment of a journal does")
    text = data[HEAD.itemsize : HEAD.itemsize + int(head["length"])]
    if len(text) != head["length"] or zlib.crc32(text) != head["checksum"]:
        raise BadRecord("its head is damaged")
    # A checksum that fits is no proof: that of no bytes at all is 0, as in a head that was never written out.
    try:
        description = json.loads(text)
    except ValueError:
        raise BadRecord("its head is no description of a group") from None
    if not isinstance(description, dict):
        raise BadRecord("its head is no description of a group")
    return description, HEAD.itemsize + len(text)


def encode(sequence: int, block: ClosedBlock, group: InstrumentGroup) -> list[Buffer]:
    """Lay out a block as a record: buffers to be written one behind the other; readings that are there are not copied.

    Missing readings are left out.
    """
    complete = bool(block.present.all())
    # As words: of records as such numpy would leave out the padding, and put there what is in its memory.
    there = words(block.readings)
    readings = there.reshape(-1, there.shape[-1]) if complete else there[block.present]
    counts = np.array([(len(block.ledger), len(readings), len(block.late), len(block.revised))], COUNTS)
    parts = [counts, block.ledger, pack_missing(block.present), readings, block.late]
    parts += [block.late_of.astype("<i4"), block.revised]
    body = [buffer for part in parts for buffer in _padded(part)]
    checksum = length = 0
    for buffer in body:
        checksum, length = zlib.crc32(buffer, checksum), length + len(buffer)
    return [_header(sequence, length, checksum, group_checksum(group)), *body]


def parse_header(data: bytes | memoryview, magic: int = RECORD_MAGIC) -> Header:
    """Read a record's header; `magic` is what it begins with.

    Raises:
        BadRecord: it is none, or not whole.
    """
    if len(data) < RECORD.itemsize:
        raise BadRecord("it is shorter than a record's header")
    header = np.frombuffer(data, RECORD, count=1)[0]
    if header["magic"] != magic or zlib.crc32(data[_CHECKED_FROM : RECORD.itemsize]) != header["header_checksum"]:
        raise BadRecord("no record begins there")
    if header["length"] > BODY_MAX:
        raise BadRecord("its length is beyond belief")
    return Header(
        sequence=int(header["sequence"]),
        length=int(header["length"]),
        checksum=int(header["body_checksum"]),
        group_checksum=int(header["group_checksum"]),
    )


def check_body(header: Header, body: bytes | memoryview) -> None:
    """See that a body is the one its header was written with.

    Raises:
        BadRecord: it is not.
    """
    if len(body) < COUNTS.itemsize or len(body) != header.length or zlib.crc32(body) != header.checksum:
        raise BadRecord("its checksum does not fit")


def counted(body: bytes | memoryview) -> tuple[int, int]:
    """How many triggers a checked body closes, and how many readings it holds, late ones included."""
    counts = np.frombuffer(body, COUNTS, count=1)[0]
    return int(counts["triggers"]), int(counts["readings"]) + int(counts["late"])


def decode(body: bytes | memoryview, group: InstrumentGroup) -> ClosedBlock:
    """Read a block back from a checked body; readings that were not there are zeros.

    Raises:
        BadRecord: its parts do not add up.
    """
    counts = {
        name: int(value) for name, value in zip(COUNTS.names or (), np.frombuffer(body, COUNTS, 1)[0], strict=True)
    }
    rows, missing_bytes = ledger_dtype(group.size), -(-group.size // 8)
    taken = _Taken(body, COUNTS.itemsize)
    ledger = taken.take(rows, counts["triggers"])
    missing = taken.take(np.dtype(np.uint8), counts["triggers"] * missing_bytes).reshape(-1, missing_bytes)
    there = taken.take(group.record, counts["readings"])
    late = taken.take(group.record, counts["late"])
    late_of = taken.take(np.dtype("<i4"), counts["late"]).astype(np.intp)
    revised = taken.take(rows, counts["revised"])
    taken.end()
    present = ~unpack_missing(missing, group.size)
    if np.count_nonzero(present) != len(there):
        raise BadRecord("it has not as many readings as its bitmaps say")
    if len(there) == present.size:
        readings = there.reshape(present.shape)
    else:
        readings = np.zeros(present.shape, group.record)
        words(readings)[present] = words(there)
    return ClosedBlock(readings=readings, present=present, ledger=ledger, late=late, late_of=late_of, revised=revised)


class _Taken:
    """Goes through a body, part by part."""

    def __init__(self, body: bytes | memoryview, start: int) -> None:
        self._body = body
        self._at = start

    def take(self, dtype: np.dtype[Any], count: int) -> Array:
        if self._at + dtype.itemsize * count > len(self._body):
            raise BadRecord("its parts are longer than it is")
        part = np.frombuffer(self._body, dtype, count=count, offset=self._at)
        self._at += _up_to_8(part.nbytes)
        return part

    def end(self) -> None:
        if self._at != len(self._body):
            raise BadRecord("it is longer than its parts")


def framed(sequence: int, text: bytes, group: InstrumentGroup, magic: int) -> bytes:
    """Lay out a text as a record of another kind; it is padded with spaces."""
    body = text + b" " * (-len(text) % 8)
    return _header(sequence, len(body), zlib.crc32(body), group_checksum(group), magic) + body


def _header(sequence: int, length: int, checksum: int, group: int, magic: int = RECORD_MAGIC) -> bytes:
    header = np.array([(magic, 0, checksum, group, sequence, length)], RECORD)
    header["header_checksum"] = zlib.crc32(header.tobytes()[_CHECKED_FROM:])
    return header.tobytes()


def _padded(part: Array) -> Iterator[Buffer]:
    if part.nbytes:
        yield np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
        if part.nbytes % 8:
            yield bytes(-part.nbytes % 8)


def _up_to_8(nbytes: int) -> int:
    return -(-nbytes // 8) * 8

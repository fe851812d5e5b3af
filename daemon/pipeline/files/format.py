"""The journal's format, as `docs/log.md` tells it: pure functions between blocks and bytes.

A segment is a head that says of which journal and group it is, then records. A record is a header of fixed size and a
body: one block (`ClosedBlock`) with its number. Everything is little-endian, and begins at a multiple of 8 bytes.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from daemon.core.outside.disk import Buffer, Contents
from schemas.batch import Aside, ClosedBlock
from schemas.ledger import ledger_dtype, pack_missing, unpack_missing
from schemas.readings import Array, InstrumentGroup, words
from schemas.sessions import SESSION

MAGIC = b"TLJRNL\x00\x02"
"""The first eight bytes of a segment; the last of them is the version of the format."""

RECORD_MAGIC = 0x4A_4C_54_89
"""The first four bytes of a record, 89 54 4C 4A: not text, so that no readings of text look like one by accident."""

HEAD: np.dtype[Any] = np.dtype(
    [
        ("magic", "S8"),
        ("journal", "<u8"),
        ("follows", "<u8"),
        ("description", "<u4"),  # bytes of it
        ("state", "<u4"),  # bytes of it
        ("group_checksum", "<u4"),  # CRC-32 of the description
        ("checksum", "<u4"),  # CRC-32 of the bytes 8 to 36, and of all that follows the 40 of this
    ]
)
"""What a segment begins with (40 bytes). The description follows, JSON padded with spaces, then the state and zeros."""

RECORD: np.dtype[Any] = np.dtype(
    [
        ("magic", "<u4"),
        ("header_checksum", "<u4"),  # CRC-32 of the 40 bytes that follow it
        ("body_checksum", "<u4"),  # CRC-32 of the body
        ("group_checksum", "<u4"),  # CRC-32 of the description in the segment's head
        ("sequence", "<u8"),
        ("follows", "<u8"),
        ("synced", "<u8"),
        ("length", "<u8"),  # bytes of the body, a multiple of 8
    ]
)
"""A record's header (48 bytes); see `Header`."""

COUNTS: np.dtype[Any] = np.dtype(
    [(name, "<u4") for name in ("triggers", "readings", "late", "revised", "aside", "sessions")]
)
"""What a body begins with (24 bytes): how much of each part follows."""

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

    follows: the last number that was written before it, or that the database was known to have. synced: the records up
    to this number, as far as they are on the disk at all, were synced before this one was written.
    """

    sequence: int
    follows: int
    synced: int
    length: int
    checksum: int
    group_checksum: int


def describe(group: InstrumentGroup) -> dict[str, Any]:
    """Describe what the records of a segment hold; equal for groups whose records are laid out alike."""
    fields: Mapping[str, Any] = group.record.fields or {}
    about: dict[str, Any] = {
        "group": group.name,
        "instruments": group.size,
        "record": [[name, dtype.str, offset] for name, (dtype, offset, *_) in fields.items()],
        "record_bytes": group.record.itemsize,
        "ledger_bytes": ledger_dtype(group.size).itemsize,
    }
    # What is for a table is for no folder, and the other way round.
    return about if group.folder is None else {**about, "folder": group.folder}


@lru_cache
def group_checksum(group: InstrumentGroup) -> int:
    """The checksum of a group's description, which each of its records carries."""
    return zlib.crc32(_description(group))


@dataclass(frozen=True, kw_only=True)
class Head:
    """What the head of a segment says.

    journal: the id of its journal. follows: the last number before those of the segment. state: what its writer kept
    there, as it was after `follows`. nbytes: where the first record begins.
    """

    journal: int
    follows: int
    state: bytes
    description: dict[str, Any]
    nbytes: int


def segment_head(group: InstrumentGroup, journal: int, follows: int = 0, state: bytes = b"") -> bytes:
    """Build what a segment begins with."""
    text = _description(group)
    head = np.array([(MAGIC, journal, follows, len(text), len(state), group_checksum(group), 0)], HEAD)
    body = text + state + bytes(-len(state) % 8)
    head["checksum"] = _head_checksum(head.tobytes(), body)
    return head.tobytes() + body


def _head_checksum(head: bytes, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(head[len(MAGIC) : HEAD.itemsize - 4]))


def _description(group: InstrumentGroup) -> bytes:
    text = json.dumps(describe(group), separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


def parse_segment_head(data: bytes | memoryview | Contents) -> Head:
    """Read the beginning of a segment.

    Raises:
        BadRecord: it is none, or not whole.
    """
    if len(data) < HEAD.itemsize:
        raise BadRecord("it is shorter than the head of a segment")
    fixed = bytes(data[: HEAD.itemsize])
    if not fixed.startswith(MAGIC):
        raise BadRecord("it does not begin as a segment of a journal does")
    head = np.frombuffer(fixed, HEAD)[0]
    length, state = int(head["description"]), int(head["state"])
    nbytes = HEAD.itemsize + length + _up_to_8(state)
    body = bytes(data[HEAD.itemsize : nbytes])
    if len(body) != nbytes - HEAD.itemsize or _head_checksum(fixed, body) != head["checksum"]:
        raise BadRecord("its head is damaged")
    # A checksum that fits is no proof: bytes that somebody else wrote may have one.
    try:
        description = json.loads(body[:length])
    except ValueError:
        raise BadRecord("its head is no description of a group") from None
    if not isinstance(description, dict):
        raise BadRecord("its head is no description of a group")
    return Head(
        journal=int(head["journal"]),
        follows=int(head["follows"]),
        state=body[length : length + state],
        description=description,
        nbytes=nbytes,
    )


def encode(
    sequence: int, block: ClosedBlock, group: InstrumentGroup, *, follows: int = 0, synced: int = 0
) -> list[Buffer]:
    """Lay out a block as a record: buffers to be written one behind the other; readings that are there are not copied.

    Missing readings are left out. follows, synced: see `Header`.
    """
    complete = bool(block.present.all())
    # As words: of records as such numpy would leave out the padding, and put there what is in its memory.
    there = words(block.readings)
    readings = there.reshape(-1, there.shape[-1]) if complete else there[block.present]
    aside = [] if block.aside is None else [block.aside.readings, block.aside.run, block.aside.reason]
    amounts = (readings, block.late, block.revised, aside[0] if aside else (), block.sessions)
    counts = np.array([(len(block.ledger), *(len(amount) for amount in amounts))], COUNTS)
    parts = [counts, block.ledger, pack_missing(block.present), readings, block.late]
    parts += [block.late_of.astype("<i4"), block.revised, *aside, block.sessions]
    body = [buffer for part in parts for buffer in padded(part)]
    checksum = length = 0
    for buffer in body:
        checksum, length = zlib.crc32(buffer, checksum), length + len(buffer)
    numbers = (sequence, follows, synced)
    return [record_header(numbers, length, checksum, group_checksum(group)), *body]


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
        follows=int(header["follows"]),
        synced=int(header["synced"]),
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


def counted(body: bytes | memoryview) -> tuple[int, int, int]:
    """How many triggers a checked body closes, how many readings are for them or came late, and how many are aside."""
    counts = np.frombuffer(body, COUNTS, count=1)[0]
    return int(counts["triggers"]), int(counts["readings"]) + int(counts["late"]), int(counts["aside"])


def counted_of(block: ClosedBlock) -> int:
    """How many readings a block holds, those aside included."""
    return int(np.count_nonzero(block.present)) + len(block.late) + (len(block.aside.readings) if block.aside else 0)


def decode(body: bytes | memoryview, group: InstrumentGroup) -> ClosedBlock:
    """Read a block back from a checked body; readings that were not there are zeros.

    Raises:
        BadRecord: its parts do not add up.
    """
    counts = {
        name: int(value) for name, value in zip(COUNTS.names or (), np.frombuffer(body, COUNTS, 1)[0], strict=True)
    }
    rows, missing_bytes = ledger_dtype(group.size), -(-group.size // 8)
    taken = Parts(body, COUNTS.itemsize)
    ledger = taken.take(rows, counts["triggers"])
    missing = taken.take(np.dtype(np.uint8), counts["triggers"] * missing_bytes).reshape(-1, missing_bytes)
    there = taken.take(group.record, counts["readings"])
    late = taken.take(group.record, counts["late"])
    late_of = taken.take(np.dtype("<i4"), counts["late"]).astype(np.intp)
    revised = taken.take(rows, counts["revised"])
    aside = _aside(taken, group, counts["aside"])
    sessions = taken.take(SESSION, counts["sessions"])
    taken.end()
    present = ~unpack_missing(missing, group.size)
    return ClosedBlock(
        readings=_placed(there, present, group),
        present=present,
        ledger=ledger,
        late=late,
        late_of=late_of,
        revised=revised,
        aside=aside,
        sessions=sessions,
    )


def _placed(there: Array, present: Array, group: InstrumentGroup) -> Array:
    """Readings in their places, by trigger and instrument."""
    if np.count_nonzero(present) != len(there):
        raise BadRecord("it has not as many readings as its bitmaps say")
    if len(there) == present.size:
        return there.reshape(present.shape)
    readings = np.zeros(present.shape, group.record)
    words(readings)[present] = words(there)
    return readings


def _aside(taken: "Parts", group: InstrumentGroup, count: int) -> Aside | None:
    if not count:
        return None
    readings = taken.take(group.record, count)
    run = taken.take(np.dtype("<i4"), count)
    return Aside(readings=readings, run=run, reason=taken.take(np.dtype(np.uint8), count))


class Parts:
    """Goes through a body, part by part, each beginning at a multiple of 8 bytes."""

    def __init__(self, body: bytes | memoryview, start: int) -> None:
        self._body = body
        self._at = start

    def take(self, dtype: np.dtype[Any], count: int) -> Array:
        """The next part: shape (count,); raises BadRecord where the body ends before."""
        if self._at + dtype.itemsize * count > len(self._body):
            raise BadRecord("its parts are longer than it is")
        part = np.frombuffer(self._body, dtype, count=count, offset=self._at)
        self._at += _up_to_8(part.nbytes)
        return part

    def end(self) -> None:
        """See that there are no more; raises BadRecord."""
        if self._at != len(self._body):
            raise BadRecord("it is longer than its parts")


def framed(sequence: int, text: bytes, group: InstrumentGroup, magic: int) -> bytes:
    """Lay out a text as a record of another kind; it is padded with spaces."""
    body = text + b" " * (-len(text) % 8)
    return record_header((sequence, 0, 0), len(body), zlib.crc32(body), group_checksum(group), magic) + body


def record_header(
    numbers: tuple[int, int, int], length: int, checksum: int, group: int, magic: int = RECORD_MAGIC
) -> bytes:
    """Build a record's header; numbers: `sequence`, `follows` and `synced` as in `Header`."""
    header = np.array([(magic, 0, checksum, group, *numbers, length)], RECORD)
    header["header_checksum"] = zlib.crc32(header.tobytes()[_CHECKED_FROM:])
    return header.tobytes()


def padded(part: Array) -> Iterator[Buffer]:
    """The bytes of a part, without copying them, and those that bring it to a multiple of 8."""
    if part.nbytes:
        yield np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
        if part.nbytes % 8:
            yield bytes(-part.nbytes % 8)


def _up_to_8(nbytes: int) -> int:
    return -(-nbytes // 8) * 8

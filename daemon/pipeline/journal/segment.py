"""Segments: the files of a journal. One is written at a time, from its beginning; the others are only read."""

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from daemon.pipeline.journal.format import (
    RECORD,
    RECORD_MAGIC,
    BadRecord,
    Buffer,
    Header,
    check_body,
    counted,
    decode,
    parse_header,
    parse_segment_head,
    segment_head,
)
from schemas.batch import ClosedBlock
from schemas.readings import Array, InstrumentGroup

ENDING = ".journal"
BUFFERS_AT_ONCE = 512
"""Buffers handed to one writev; the system's limit (IOV_MAX) is 1024."""


INDEX: np.dtype[Any] = np.dtype([(name, "<i8") for name in ("sequence", "start", "end", "triggers", "readings")])
"""Where a whole record is (its number, the offset of its header, its end) and how much it holds; a journal of days has
millions of them."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """A stretch of a segment that holds no whole record: start <= offset < end; `is_torn` when nothing follows it."""

    path: Path
    start: int
    end: int
    is_torn: bool


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What a segment holds, in the order of the file.

    records: INDEX, shape (records,). groups: the groups that its records say they are of, as `group_checksum`.
    """

    path: Path
    records: Array
    groups: frozenset[int]
    damages: tuple[Damage, ...]
    nbytes: int


class SegmentWriter:
    """The segment being written."""

    def __init__(self, folder: Path, first: int, group: InstrumentGroup, ending: str = ENDING) -> None:
        """Begin a segment whose first record has the number `first`; raises OSError when it cannot be made."""
        self.path = folder / f"{first:020d}{ending}"
        self.last = first - 1
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        try:
            self.nbytes = _write_all(self._file, [segment_head(group)])
            sync_folder(folder)
        except OSError:
            os.close(self._file)
            self.path.unlink()
            raise

    def append(self, records: Sequence[tuple[int, list[Buffer]]]) -> None:
        """Append records in ascending order: all of them or none.

        Raises:
            OSError: they could not be written; the segment is as it was.
        """
        try:
            written = _write_all(self._file, [buffer for _, buffers in records for buffer in buffers])
        except OSError:
            os.ftruncate(self._file, self.nbytes)
            os.lseek(self._file, self.nbytes, os.SEEK_SET)
            raise
        self.nbytes += written
        self.last = records[-1][0]

    def sync(self) -> None:
        """Wait until all that was appended is on the disk; raises OSError when it may not be."""
        os.fdatasync(self._file)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def scan(path: Path) -> Scan:
    """Go through a segment and check every record.

    Behind a damaged stretch the next whole record is looked for at every multiple of 8 bytes.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        nbytes = os.fstat(file.fileno()).st_size
        if not nbytes:
            return Scan(path=path, records=np.empty(0, INDEX), groups=frozenset(), damages=(), nbytes=0)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
            return _scanned(path, mapped, data)


def _scanned(path: Path, mapped: mmap.mmap, data: memoryview) -> Scan:
    records: list[tuple[int, ...]] = []
    groups: set[int] = set()
    damages: list[Damage] = []
    try:
        _, at = parse_segment_head(bytes(data[:65_536]))
    except BadRecord:
        at = 0
    good_until = at
    while at < len(data):
        header = _whole_record(data, at)
        if header is None:
            at = _next_candidate(mapped, at + 8)
            continue
        if at > good_until:
            damages.append(Damage(path=path, start=good_until, end=at, is_torn=False))
        body = at + RECORD.itemsize
        records.append((header.sequence, at, body + header.length, *counted(data[body : body + header.length])))
        groups.add(header.group_checksum)
        at = good_until = body + header.length
    if good_until < len(data):
        damages.append(Damage(path=path, start=good_until, end=len(data), is_torn=True))
    return Scan(
        path=path,
        records=np.array(records, INDEX),
        groups=frozenset(groups),
        damages=tuple(damages),
        nbytes=len(data),
    )


def _whole_record(data: memoryview, at: int) -> Header | None:
    try:
        header = parse_header(data[at : at + RECORD.itemsize])
        body = at + RECORD.itemsize
        check_body(header, data[body : body + header.length])
    except BadRecord:
        return None
    return header


_MAGIC_BYTES = RECORD_MAGIC.to_bytes(4, "little")


def _next_candidate(mapped: mmap.mmap, at: int) -> int:
    """The next multiple of 8 at which a record may begin, or the end."""
    while (found := mapped.find(_MAGIC_BYTES, at)) >= 0:
        if found % 8 == 0:
            return found
        at = found + 1
    return len(mapped)


def read(path: Path, start: int, end: int, group: InstrumentGroup) -> ClosedBlock:
    """Read a record, checked again: what was whole at the start may have been damaged since.

    Raises:
        BadRecord: it is not whole any more.
        OSError: the segment cannot be read.
    """
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(end - start)
    header = parse_header(data[: RECORD.itemsize])
    body = memoryview(data)[RECORD.itemsize :]
    check_body(header, body)
    return decode(body, group)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(file: int, buffers: Sequence[Buffer]) -> int:
    total = 0
    for start in range(0, len(buffers), BUFFERS_AT_ONCE):
        left = [memoryview(buffer) for buffer in buffers[start : start + BUFFERS_AT_ONCE]]
        while left:
            written = os.writev(file, left)
            total += written
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if left and written:
                left[0] = left[0][written:]
    return total

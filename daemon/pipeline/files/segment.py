"""Segments: the files of records. One is written at a time, from its beginning; the others are only read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from daemon.core.outside import Disk
from daemon.core.outside.disk import Buffer, Contents
from daemon.pipeline.files.format import (
    RECORD,
    RECORD_MAGIC,
    BadRecord,
    Head,
    Header,
    check_body,
    decode,
    parse_header,
    parse_segment_head,
)
from schemas.batch import ClosedBlock
from schemas.readings import InstrumentGroup

ENDING = ".journal"

DAMAGED = "damaged"
"""Folder beside the segments for what could not be read."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """A stretch of a segment that holds no whole record: start <= offset < end; `is_torn` when nothing follows it."""

    path: Path
    start: int
    end: int
    is_torn: bool


class SegmentWriter:
    """The segment being written. After any failure only `close` is allowed."""

    def __init__(self, disk: Disk, path: Path, head: bytes) -> None:
        """Begin a segment; raises OSError when it cannot be made."""
        self.path = path
        self.nbytes = len(head)
        self._disk = disk
        self._is_named = False
        self._file = disk.create(path)
        try:
            self._file.append([head])
        except OSError:
            self._file.close()
            disk.remove(path)
            raise

    def append(self, records: Sequence[Sequence[Buffer]]) -> None:
        """Append records; raises OSError when part of them may not be there."""
        buffers = [buffer for record in records for buffer in record]
        self._file.append(buffers)
        self.nbytes += sum(len(buffer) for buffer in buffers)

    def sync(self) -> None:
        """Wait until all that was appended is on the disk, under its name; raises OSError when it may not be."""
        self._file.sync()
        if not self._is_named:
            self._disk.sync_folder(self.path.parent)
            self._is_named = True

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def make_folder(disk: Disk, folder: Path) -> None:
    """Make a group's folder, which is on the disk under its names when this returns; raises OSError."""
    disk.make_folder(folder)
    # An earlier process may have made it, and ended before it was on the disk.
    disk.sync_folder(folder.parent.parent)
    disk.sync_folder(folder.parent)


def set_aside(disk: Disk, folder: Path, damage: Damage) -> Path:
    """Copy a damaged stretch of a segment in a group's folder to where it stays; return where. Raises OSError."""
    target = copy_of(folder, damage)
    disk.make_folder(target.parent)
    disk.replace(target, disk.read(damage.path, damage.start, damage.end))
    return target


def copy_of(folder: Path, damage: Damage) -> Path:
    """Where a damaged stretch of a segment in a group's folder is copied to."""
    return folder / DAMAGED / f"{damage.path.stem}-{damage.start}.bin"


def paths_in(disk: Disk, folder: Path, ending: str = ENDING) -> list[Path]:
    """The segments in a folder, in the order of their first numbers."""
    return [folder / name for name in disk.names(folder) if name.endswith(ending) and name[: -len(ending)].isdigit()]


def path_of(folder: Path, first: int, ending: str = ENDING) -> Path:
    """The file of a segment whose first record has the number `first`."""
    return folder / f"{first:020d}{ending}"


def whole_records(data: Contents, at: int, magic: int = RECORD_MAGIC) -> Iterator[tuple[Header, int, int]]:
    """The whole records of a segment from an offset on: the header of each, where it begins, and where its body does.

    Behind a damaged stretch the next one is looked for at every multiple of 8 bytes.
    """
    while at < len(data):
        header = _whole_record(data, at, magic)
        if header is None:
            at = _next_candidate(data, at + 8, magic.to_bytes(4, "little"))
            continue
        body = at + RECORD.itemsize
        yield header, at, body
        at = body + header.length


def head_of(data: Contents) -> Head | None:
    """The head of a segment; None where it is not whole."""
    try:
        return parse_segment_head(data)
    except BadRecord:
        return None


def _whole_record(data: Contents, at: int, magic: int) -> Header | None:
    try:
        header = parse_header(data[at : at + RECORD.itemsize], magic)
        body = at + RECORD.itemsize
        check_body(header, data[body : body + header.length])
    except BadRecord:
        return None
    return header


def _next_candidate(data: Contents, at: int, magic: bytes) -> int:
    """The next multiple of 8 at which a record may begin, or the end."""
    while (found := data.find(magic, at)) >= 0:
        if found % 8 == 0:
            return found
        at = found + 1
    return len(data)


def read(disk: Disk, path: Path, start: int, end: int, group: InstrumentGroup) -> ClosedBlock:
    """Read a record, checked again: what was whole at the start may have been damaged since.

    Raises:
        BadRecord: it is not whole any more.
        OSError: the segment cannot be read.
    """
    data = disk.read(path, start, end)
    _, body = checked(data)
    return decode(body, group)


def checked(data: bytes | memoryview) -> tuple[Header, memoryview]:
    """The header and the body of a record.

    Raises:
        BadRecord: it is not whole.
    """
    header = parse_header(data[: RECORD.itemsize])
    body = memoryview(data)[RECORD.itemsize :]
    check_body(header, body)
    return header, body

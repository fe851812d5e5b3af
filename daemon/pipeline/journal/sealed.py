"""The segments of a journal that are not written any more: read, trimmed, and written anew where that is needed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from daemon.core.outside import Disk
from daemon.core.outside.disk import Buffer
from daemon.pipeline.journal.deferred import Deferred
from daemon.pipeline.journal.format import BadRecord
from daemon.pipeline.journal.segment import (
    INDEX,
    NO_RECORDS,
    Damage,
    SegmentWriter,
    checked,
    read,
    scan,
    set_aside,
)
from schemas.batch import ClosedBlock
from schemas.readings import Array, InstrumentGroup


@dataclass(kw_only=True, eq=False)
class SealedSegment:
    """A segment that is not written any more.

    records: those still to be committed; loose: those behind a hole; INDEX. writer: while syncing its file is enough to
    have it on the disk; if it is neither that nor `is_durable`, it has to be written anew. is_replaced: whether its
    file may be another by now than the one that these are of.
    """

    path: Path
    head: bytes
    nbytes: int
    records: Array
    loose: Array = field(default_factory=lambda: NO_RECORDS)
    writer: SegmentWriter | None = None
    is_durable: bool = False
    is_replaced: bool = False

    @property
    def found(self) -> Array:
        """All that is wanted of it: records, and loose ones."""
        return np.concatenate([self.records, self.loose]) if len(self.loose) else self.records

    def close(self) -> None:
        """Let go of its file."""
        writer, self.writer = self.writer, None
        if writer is not None:
            writer.close()


class Sealed:
    """The sealed segments of a journal, in the order of their numbers.

    nbytes: what they hold together. unreadable: records that were whole at the start and are not any more. missing:
    the numbers of those that could not be read when they had to be written anew.
    """

    def __init__(self, disk: Disk, folder: Path, group: InstrumentGroup, deferred: Deferred) -> None:
        self.unreadable: list[Damage] = []
        self.missing: list[int] = []
        self._segments: list[SealedSegment] = []
        self._disk = disk
        self._folder = folder
        self._group = group
        self._deferred = deferred

    def __iter__(self) -> Iterator[SealedSegment]:
        """All segments; raises OSError where nobody can say what is in one."""
        for segment in list(self._segments):
            self._look_again(segment)
            yield segment

    @property
    def nbytes(self) -> int:
        """Bytes that they hold together."""
        return sum(segment.nbytes for segment in self._segments)

    def add(self, segment: SealedSegment) -> None:
        """Take another one, with higher numbers than all before."""
        self._segments.append(segment)

    def close(self) -> None:
        """Let go of all files."""
        for segment in self._segments:
            segment.close()

    # --- on the disk --------------------------------------------------------------------------------------------

    @property
    def is_durable(self) -> bool:
        """Whether all that is wanted of them is on the disk."""
        return all(segment.is_durable for segment in self._segments if len(segment.found))

    def sync(self) -> None:
        """Have on the disk what is wanted of them.

        Raises:
            OSError: something is not; it is tried again with the next call, by writing it anew.
        """
        for segment in self._segments:
            if len(segment.found) and not segment.is_durable:
                self._sync(segment)

    def _sync(self, segment: SealedSegment) -> None:
        if segment.writer is None:
            self._rewrite(segment)
        else:
            try:
                segment.writer.sync()
            finally:
                segment.close()
        segment.is_durable = True

    def _rewrite(self, segment: SealedSegment) -> None:
        """Write a segment anew, with what is still wanted of it, from what can be read."""
        self._look_again(segment)
        data = memoryview(self._disk.read(segment.path, 0, segment.nbytes))
        parts: list[Buffer] = [segment.head]
        records = self._moved(segment, segment.records, data, parts)
        lost = np.setdiff1d(segment.records["sequence"], records["sequence"])
        loose = self._moved(segment, segment.loose, data, parts)
        self._deferred.release(segment.path)
        segment.is_replaced = True  # where that fails, either file may have the name
        self._disk.replace(segment.path, b"".join(parts))
        segment.is_replaced = False
        segment.close()
        self.missing += lost.tolist()
        segment.records, segment.loose = records, loose
        segment.nbytes = size_of(parts)

    def _look_again(self, segment: SealedSegment) -> None:
        """Find out where the records of a segment are that could not be replaced for certain."""
        if not segment.is_replaced:
            return
        found = scan(self._disk, segment.path)
        self.missing += np.setdiff1d(segment.records["sequence"], found.records["sequence"]).tolist()
        segment.records = found.records[np.isin(found.records["sequence"], segment.records["sequence"])]
        segment.loose = found.records[np.isin(found.records["sequence"], segment.loose["sequence"])]
        segment.nbytes, segment.is_replaced = found.nbytes, False

    def _moved(self, segment: SealedSegment, records: Array, data: memoryview, parts: list[Buffer]) -> Array:
        """Put records behind the other parts; return those that are whole, with where they are then."""
        at, moved = size_of(parts), []
        for number, follows, start, end, *rest in records.tolist():
            if not _is_whole(data[start:end]):
                self.note_damage(segment.path, start, end)
                continue
            parts.append(data[start:end])
            moved.append((number, follows, at, at + end - start, *rest))
            at += end - start
        return np.array(moved, INDEX)

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, path: Path, start: int, end: int) -> ClosedBlock | None:
        """Read a record of any segment; None, noted in `unreadable`, of one that is not whole any more.

        Raises:
            OSError: the segment cannot be read.
        """
        try:
            return read(self._disk, path, start, end, self._group)
        except BadRecord:
            self.note_damage(path, start, end)
            return None

    def read_each(self, path: Path, records: Array) -> Iterator[ClosedBlock]:
        """Read records of a segment, INDEX, in order, without those that are not whole any more; raises OSError."""
        for _, _, start, end, *_ in records.tolist():
            block = self.read(path, start, end)
            if block is not None:
                yield block

    def note_damage(self, path: Path, start: int, end: int) -> None:
        """Note that a record is not whole any more."""
        damage = Damage(path=path, start=start, end=end, is_torn=False)
        self._deferred.do(partial(set_aside, self._disk, self._folder, damage), path)
        self.unreadable.append(damage)

    # --- letting go ---------------------------------------------------------------------------------------------

    def trim(self, position: int) -> None:
        """The database has everything up to this number.

        Raises:
            OSError: a segment cannot be removed.
        """
        self.missing = [number for number in self.missing if number > position]
        for segment in list(self._segments):
            segment.records = segment.records[segment.records["sequence"] > position]
            if len(segment.records):
                break
            if not len(segment.loose):
                self._remove(segment)

    def _remove(self, segment: SealedSegment) -> None:
        self._deferred.release(segment.path)
        # What the database has needs not to reach the disk here, and once it has no name it does not.
        self._disk.remove(segment.path)
        self._segments.remove(segment)
        segment.close()

    def loosen(self) -> None:
        """Take all that was found for loose: it is not certain that it leads on from where the database is."""
        for segment in self._segments:
            segment.loose = np.concatenate([segment.records, segment.loose])
            segment.records = NO_RECORDS

    def read_loose(self) -> Iterator[ClosedBlock]:
        """Read the blocks behind a hole, in order; raises OSError."""
        for segment in self:
            yield from self.read_each(segment.path, segment.loose)

    def drop_loose(self) -> None:
        """Let go of the blocks behind a hole.

        Raises:
            OSError: they are still there.
        """
        for segment in list(self._segments):
            if len(segment.loose) and len(segment.records):
                segment.loose = NO_RECORDS
                self._rewrite(segment)
                segment.is_durable = True
            elif len(segment.loose):
                self._remove(segment)
        self._disk.sync_folder(self._folder)


def size_of(buffers: Iterable[Buffer]) -> int:
    """Bytes of buffers together."""
    return sum(len(buffer) for buffer in buffers)


def _is_whole(data: memoryview) -> bool:
    try:
        checked(data)
    except BadRecord:
        return False
    return True

"""The segment of a journal that is written, until it is sealed."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from backends.columns.filling import readings_in
from daemon.core.outside import Disk
from daemon.core.outside.disk import Buffer
from daemon.pipeline.journal.sealed import Sealed, SealedSegment, size_of
from daemon.pipeline.journal.segment import INDEX, SegmentWriter
from schemas.batch import ClosedBlock


class Growing:
    """One segment, or none: before the first block, and when it was sealed or dropped.

    records: what of it is still to be committed; as INDEX. head: its own, or that of the one before.
    is_dirty: something was appended since the last sync.
    """

    def __init__(self, disk: Disk, sealed: Sealed, head: bytes) -> None:
        self.head = head
        self.records: deque[tuple[int, ...]] = deque()
        self.is_dirty = False
        self._disk = disk
        self._sealed = sealed
        self._writer: SegmentWriter | None = None

    @property
    def path(self) -> Path | None:
        """Its file; None where there is none."""
        return None if self._writer is None else self._writer.path

    @property
    def nbytes(self) -> int:
        """Bytes that it has."""
        return 0 if self._writer is None else self._writer.nbytes

    def begin(self, path: Path, head: bytes) -> None:
        """Begin another one, where there is none; raises OSError."""
        self.head = head
        try:
            self._writer = SegmentWriter(self._disk, path, head)
        except FileExistsError:
            # A write failed, and so did the removal of its file: what that has is written now.
            self._disk.remove(path)
            self._writer = SegmentWriter(self._disk, path, head)

    def append(
        self, blocks: Sequence[ClosedBlock], records: Sequence[Sequence[Buffer]], first: int, follows: int
    ) -> int:
        """Append the records of blocks, which get the numbers from `first` on, and return the last number.

        follows: the number before.

        Raises:
            OSError: part of them may not be there; then nothing may be written behind them.
        """
        assert self._writer is not None
        start = self._writer.nbytes
        self._writer.append(records)
        self.is_dirty = True
        for number, (block, record) in enumerate(zip(blocks, records, strict=True), first):
            end = start + size_of(record)
            self.records.append((number, follows, start, end, block.triggers, readings_in(block)))
            follows, start = number, end
        return follows

    def sync(self) -> None:
        """Wait until all that was appended is on the disk.

        Raises:
            OSError: it may not be; it is sealed, to be written anew.
        """
        if self._writer is not None and self.is_dirty:
            try:
                self._writer.sync()
            except OSError:
                self.end()
                raise
            self.is_dirty = False

    def seal(self) -> SealedSegment:
        """Let it grow no more; it is on the disk as soon as its file is synced."""
        assert self._writer is not None
        segment = SealedSegment(
            path=self._writer.path,
            head=self.head,
            nbytes=self._writer.nbytes,
            records=np.array(self.records, INDEX),
            writer=self._writer,
            is_durable=not self.is_dirty,
        )
        self._sealed.add(segment)
        self._writer, self.records, self.is_dirty = None, deque(), False
        return segment

    def end(self) -> None:
        """Seal it after a failure: what of it was not synced has to be written anew."""
        if self.records:
            self.seal().close()
        else:
            self.drop()

    def drop(self) -> None:
        """Remove it, if there is one; raises OSError."""
        if self._writer is not None:
            writer, self._writer, self.is_dirty = self._writer, None, False
            writer.close()
            self._disk.remove(writer.path)

    def trim(self, position: int, most_bytes: int) -> None:
        """The database has everything up to this number: with nothing else in it, and so many bytes, it goes.

        Raises:
            OSError: it cannot be removed.
        """
        while self.records and self.records[0][0] <= position:
            self.records.popleft()
        if self._writer is not None and not self.records:
            self.is_dirty = False
            if self._writer.nbytes >= most_bytes:
                self.drop()

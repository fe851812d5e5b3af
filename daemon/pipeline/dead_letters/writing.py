"""Writing dead letters, behind all others of their folder; all of it blocks."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from daemon.core.outside import Disk
from daemon.pipeline.dead_letters.format import ENDING, Letter, encode_letter
from daemon.pipeline.dead_letters.index import Segment
from daemon.pipeline.files.format import segment_head
from daemon.pipeline.files.identity import Identity
from daemon.pipeline.files.segment import SegmentWriter, make_folder, path_of
from schemas.batch import ClosedBlock
from schemas.readings import InstrumentGroup

SEGMENT_BYTES = 16 * 2**20


class Writing:
    """The segment that is written, and what failed writes have left.

    segments: those of the folder, which are told how long they are.
    failed: where a write failed, and up to which byte the segment is good.
    """

    def __init__(
        self, disk: Disk, folder: Path, group: InstrumentGroup, identity: Identity, segments: dict[Path, Segment]
    ) -> None:
        self.failed: dict[Path, int] = {}
        self._disk = disk
        self._folder = folder
        self._group = group
        self._identity = identity
        self._segments = segments
        self._writer: SegmentWriter | None = None

    def write(self, letters: Sequence[tuple[Letter, ClosedBlock]]) -> list[Letter]:
        """Write letters, and return them with where they are, on the disk.

        Raises:
            OSError: they may not be there.
        """
        records = [encode_letter(letter, block, self._group) for letter, block in letters]
        writer = self._writer_for(letters[0][0].serial, letters[-1][0].serial)
        at, placed = writer.nbytes, []
        try:
            writer.append(records)
            writer.sync()
        except OSError:
            # Whole copies may be there, and would count at the next start.
            self.failed[writer.path] = at if writer.path in self._segments else 0
            self.end()
            raise
        for (letter, _), buffers in zip(letters, records, strict=True):
            end = at + sum(len(buffer) for buffer in buffers)
            placed.append(replace(letter, path=writer.path, start=at + len(buffers[0]), end=end))
            at = end
        self._segments.setdefault(writer.path, Segment(nbytes=0)).nbytes = at
        return placed

    def _writer_for(self, first: int, last: int) -> SegmentWriter:
        if self._writer is not None and self._writer.nbytes > SEGMENT_BYTES:
            self.end()
        if self._writer is None:
            make_folder(self._disk, self._folder)
            self._identity.choose()
        self._identity.take(last)
        if self._writer is None:
            head = segment_head(self._group, self._identity.id, first - 1)
            self._writer = SegmentWriter(self._disk, path_of(self._folder, first, ENDING), head)
        return self._writer

    def end(self, path: Path | None = None) -> None:
        """Write no more into the segment that is written, or only if it is this one."""
        if self._writer is not None and path in (None, self._writer.path):
            writer, self._writer = self._writer, None
            writer.close()

    def forget_failed(self) -> None:
        """Remove the copies that failed writes left; raises OSError where they are still there."""
        for path, nbytes in list(self.failed.items()):
            if nbytes:
                self._disk.replace(path, self._disk.read(path, 0, nbytes))
            else:
                self._disk.remove(path)
                self._disk.sync_folder(self._folder)
            del self.failed[path]

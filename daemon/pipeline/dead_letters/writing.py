"""The files of dead letters on the disk: letters are appended, and cut out again; all of it blocks."""

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from daemon.core.outside import Disk
from daemon.pipeline.dead_letters.format import ENDING, Letter, encode_letter
from daemon.pipeline.dead_letters.index import Index, LetterFile
from daemon.pipeline.files.deferred import Deferred
from daemon.pipeline.files.format import segment_head
from daemon.pipeline.files.segment import SegmentWriter, make_folder, path_of
from schemas.batch import ClosedBlock
from schemas.readings import InstrumentGroup

FILE_BYTES = 2**20
"""Bytes after which another file is begun: what is left of one is written again when some of its letters are gone."""


class Writing:
    """Writes the files of one folder, and notes in the index where its letters are."""

    def __init__(self, disk: Disk, folder: Path, group: InstrumentGroup) -> None:
        self.index = Index()
        self._disk = disk
        self._folder = folder
        self._group = group
        self._deferred = Deferred(folder)
        self._failed: dict[Path, int] = {}  # where a write failed, and up to which byte the file is good
        self._are_names_synced = True
        self._writer: SegmentWriter | None = None

    def sync_again(self, last: Path) -> None:
        """Write the last file of an earlier process anew, now or as soon as the disk takes it.

        It may have been killed before it had synced that; who reads the letters here relies on them.
        """
        self._deferred.do(partial(self._write_anew, last))

    def _write_anew(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):  # nothing of it was wanted any more
            self._disk.replace(path, self._disk.read(path, 0, self._disk.size(path)))

    @property
    def is_settled(self) -> bool:
        """Whether the files hold what they should."""
        done = self._are_names_synced and not self._failed and not self._deferred
        return done and not any(file.gone for file in list(self.index.files.values()))

    def settle(self) -> None:
        """Make the files hold what they should: pending letters, each once. Raises OSError."""
        self._deferred.settle()
        for path, nbytes in list(self._failed.items()):
            if nbytes:
                self._disk.replace(path, self._disk.read(path, 0, nbytes))
            else:
                self._disk.remove(path)
                self._are_names_synced = False
            del self._failed[path]
        for path, file in list(self.index.files.items()):
            if file.gone:
                self._cut(path, file)
        if not self._are_names_synced:
            self._disk.sync_folder(self._folder)
            self._are_names_synced = True

    def _cut(self, path: Path, file: LetterFile) -> None:
        gone = sorted(file.gone, key=lambda letter: letter.start)
        size = sum(letter.end - letter.start for letter in gone)
        if self._writer is not None and self._writer.path == path:
            self.end()
        if file.nbytes - size <= file.head:
            self._disk.remove(path)
            del self.index.files[path]
            self._are_names_synced = False
            return
        data = self._disk.read(path, 0, file.nbytes)
        ends = [0, *(letter.end for letter in gone)]
        starts = [*(letter.start for letter in gone), len(data)]
        left = b"".join(data[start:end] for start, end in zip(ends, starts, strict=True))
        try:
            self._disk.replace(path, left)
        except OSError:
            if self._disk.size(path) != len(left):
                raise
            self._are_names_synced = False  # it has its new contents, and may not keep them
        file.nbytes = len(left)
        shift, serials = 0, {letter.serial for letter in gone}
        for letter in file.letters:
            if letter.serial in serials:
                shift += letter.end - letter.start
            else:
                letter.start, letter.end = letter.start - shift, letter.end - shift
        file.letters = [letter for letter in file.letters if letter.serial not in serials]
        del file.gone[: len(gone)]

    def write(self, letters: Sequence[tuple[Letter, ClosedBlock]]) -> None:
        """Write letters behind all others; when it returns they are on the disk.

        Raises:
            OSError: they may not be there.
        """
        self.settle()
        records = [encode_letter(letter, block, self._group) for letter, block in letters]
        writer = self._writer_for(letters[0][0].serial)
        at = writer.nbytes
        try:
            writer.append(records)
            writer.sync()
        except OSError:
            # Whole copies may be there, and would count at the next start.
            self._failed[writer.path] = at if writer.path in self.index.files else 0
            self.end()
            raise
        self.index.files.setdefault(writer.path, LetterFile(nbytes=at, head=at)).nbytes = writer.nbytes
        for (letter, _), buffers in zip(letters, records, strict=True):
            letter.path, letter.start, at = writer.path, at, at + sum(len(buffer) for buffer in buffers)
            letter.end = at

    def _writer_for(self, first: int) -> SegmentWriter:
        if self._writer is not None and self._writer.nbytes > FILE_BYTES:
            self.end()
        if self._writer is None:
            make_folder(self._disk, self._folder)
            path = path_of(self._folder, first, ENDING)
            self._writer = SegmentWriter(self._disk, path, segment_head(self._group, 0))
        return self._writer

    def end(self) -> None:
        """Close the file that is being written."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

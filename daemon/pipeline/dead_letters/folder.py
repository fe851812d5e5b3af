"""The dead letters of one group: a folder of segments, and the letters in them."""

import asyncio
import itertools
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from backends.columns.filling import readings_in
from daemon.pipeline.closed_blocks import ASIDE, Key, keys_of, revised_keys
from daemon.pipeline.dead_letters.format import ENDING, Found, Letter, encode_letter, read, scan
from daemon.pipeline.journal import Amount
from daemon.pipeline.journal.format import BadRecord
from daemon.pipeline.journal.segment import SegmentWriter, sync_folder
from schemas.batch import ClosedBlock
from schemas.readings import InstrumentGroup

SEGMENT_BYTES = 16 * 2**20
MOVED_TOGETHER = 256

RETRIED = "retried"
"""File with the serial up to which the database is known to have what was retried, for who lists without asking it."""


def folder_of(state_dir: Path, group: str) -> Path:
    """Where the dead letters of a group are."""
    return state_dir / "dead-letters" / group


@dataclass(kw_only=True)
class _Segment:
    """A segment: how many of its letters are pending, and the highest number of a block that they were part of."""

    pending: int = 0
    number: int = 0
    has_more: bool = False  # what cannot be read, and must not be removed with the rest


class DeadLetters:
    """Keep, look up, read, remove. Use `open` first where letters may lie there already.

    All but `open`, `read` and what is awaited returns at once.
    """

    def __init__(self, folder: Path, group: InstrumentGroup) -> None:
        self.amount = Amount()
        self._folder = folder
        self._group = group
        self._pending: dict[int, Letter] = {}  # by serial, ascending
        self._of_key: dict[Key, list[Letter]] = {}
        self._of_number: dict[int, set[Key]] = {}
        self._segments: dict[Path, _Segment] = {}
        self._next = 1
        self._retried = 0
        self._passed = 0
        self._writer: SegmentWriter | None = None
        self._turn = asyncio.Lock()

    def open(self, *, position: int = 0, retried: int = 0) -> list[Found]:
        """Look through the folder; return the segments that cannot be read in whole.

        position, retried: up to which number the database has the blocks of the journal, and up to which serial the
        letters that were retried.

        Raises:
            OSError: the folder cannot be read.
        """
        self._retried, self._passed = max(retried, self._noted()), position
        found = [scan(path, self._group) for path in sorted(self._folder.glob(f"*{ENDING}"))]
        ours = [segment for segment in found if not segment.is_other]
        newest = {letter.origin: letter.serial for segment in ours for letter in segment.letters}
        for segment in ours:
            self._segments[segment.path] = _Segment(has_more=bool(segment.damaged))
            for letter in segment.letters:
                self._remember(letter, pending=newest[letter.origin] == letter.serial and letter.serial > self._retried)
        self._next = max([self._retried, *(letter.serial for segment in found for letter in segment.letters)]) + 1
        return [segment for segment in found if segment.is_other or segment.damaged]

    def _noted(self) -> int:
        try:
            return int((self._folder / RETRIED).read_text())
        except FileNotFoundError:
            return 0

    def _remember(self, letter: Letter, *, pending: bool) -> None:
        segment = self._segments[letter.path]
        segment.number = max(segment.number, letter.number)
        self._of_number.setdefault(letter.number, set()).add(letter.key)
        if pending:
            segment.pending += 1
            self._pending[letter.serial] = letter
            self._of_key.setdefault(letter.key, []).append(letter)
            self.amount.change(letter.triggers, letter.readings, 1)

    def _forget(self, letter: Letter) -> None:
        del self._pending[letter.serial]
        self._segments[letter.path].pending -= 1
        same = self._of_key[letter.key]
        same.remove(letter)
        if not same:
            del self._of_key[letter.key]
        self.amount.change(-letter.triggers, -letter.readings, -1)

    # --- looking up ---------------------------------------------------------------------------------------------

    @property
    def pending(self) -> list[Letter]:
        """All that is neither committed nor discarded, by serial."""
        return list(self._pending.values())

    @property
    def first(self) -> Letter | None:
        """The first of them."""
        return next(iter(self._pending.values()), None)

    def upto(self, serial: int) -> Iterator[Letter]:
        """Those up to a serial."""
        return itertools.takewhile(lambda letter: letter.serial <= serial, self._pending.values())

    def concerns(self, number: int, block: ClosedBlock) -> bool:
        """Whether a block has to be taken apart before it is committed: it, or what it revises, is in part rejected."""
        if any(run != ASIDE for run, _ in self._of_number.get(number, ())):
            return True
        return bool(self._of_key) and any(key in self._of_key for key in revised_keys(block))

    def of_block(self, number: int) -> set[Key]:
        """The triggers of a block that were kept, whatever became of them since."""
        return self._of_number.get(number, set())

    def has(self, key: Key) -> bool:
        """Whether anything of a trigger is pending."""
        return key in self._of_key

    def is_blocked(self, letter: Letter, among: Collection[Letter]) -> bool:
        """Whether something of the same trigger that came before it is pending and not among those."""
        same = self._of_key.get(letter.key, ())
        return len(same) > 1 and any(other.origin < letter.origin and other not in among for other in same)

    def read(self, letter: Letter) -> ClosedBlock:
        """Read what a letter holds; raises BadRecord or OSError where that cannot be."""
        return read(letter, self._group)

    async def read_all(self, letters: Sequence[Letter]) -> list[tuple[Letter, ClosedBlock]]:
        """Read letters; one that is damaged since is left out: its segment stays, and it is pending no more.

        Raises:
            OSError: the disk failed.
        """
        found = await asyncio.to_thread(lambda: [self._read_whole(letter) for letter in letters])
        for letter, block in zip(letters, found, strict=True):
            if block is None:
                self._segments[letter.path].has_more = True
                self._forget(letter)
        return [(letter, block) for letter, block in zip(letters, found, strict=True) if block is not None]

    def _read_whole(self, letter: Letter) -> ClosedBlock | None:
        try:
            return self.read(letter)
        except BadRecord:
            return None

    def read_last(self, most: int) -> list[ClosedBlock]:
        """Read the newest letters, at most so many, in order, without what is damaged since; raises OSError."""
        found = (self._read_whole(letter) for letter in self.pending[-most:])
        return [block for block in found if block is not None]

    # --- keeping ------------------------------------------------------------------------------------------------

    def address(self, parts: Sequence[tuple[ClosedBlock, str]], number: int) -> list[tuple[Letter, ClosedBlock]]:
        """Make letters of rejected parts of a block, each with the reason; `keep` may be tried with them repeatedly."""
        letters = []
        for k, (block, reason) in enumerate(parts):
            serial = self._next
            self._next += 1
            letter = Letter(
                serial=serial,
                origin=serial,
                number=number,
                key=keys_of(block)[0],
                triggers=block.triggers,
                readings=readings_in(block) + (0 if block.aside is None else len(block.aside.readings)),
                kept_ns=time.time_ns(),
                reason=reason,
                part=k,
                parts=len(parts),
            )
            letters.append((letter, block))
        return letters

    async def keep(self, letters: Sequence[tuple[Letter, ClosedBlock]]) -> None:
        """Put letters on the disk; returns when they are there.

        Raises:
            OSError: they may not be.
        """
        async with self._turn:
            written = await asyncio.to_thread(self._write, letters)
        for letter in written:
            self._segments.setdefault(letter.path, _Segment())
            self._remember(letter, pending=True)

    async def move(self, letters: Sequence[Letter]) -> None:
        """Write letters again, behind all others, with their origin.

        Raises:
            OSError: they are where they were.
        """
        for start in range(0, len(letters), MOVED_TOGETHER):
            some = letters[start : start + MOVED_TOGETHER]
            whole = await self.read_all(some)
            again = []
            for k, (letter, block) in enumerate(whole):
                again.append((replace(letter, serial=self._next, part=k, parts=len(whole)), block))
                self._next += 1
            if again:
                await self.keep(again)
            for letter, _ in whole:
                self._forget(letter)

    def _write(self, letters: Sequence[tuple[Letter, ClosedBlock]]) -> list[Letter]:
        records = [(letter.serial, encode_letter(letter, block, self._group)) for letter, block in letters]
        writer = self._writer_for(letters[0][0].serial)
        at, placed = writer.nbytes, []
        try:
            writer.append(records)
            writer.sync()
        except OSError:
            # What of it is there has the same serials as what comes when it is tried again, in another segment.
            self._end_segment()
            raise
        for (letter, _), (_, buffers) in zip(letters, records, strict=True):
            end = at + sum(len(buffer) for buffer in buffers)
            placed.append(replace(letter, path=writer.path, start=at + len(buffers[0]), end=end))
            at = end
        return placed

    def _writer_for(self, serial: int) -> SegmentWriter:
        if self._writer is not None and self._writer.nbytes > SEGMENT_BYTES:
            self._end_segment()
        if self._writer is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self._folder.parent.parent)
            sync_folder(self._folder.parent)
            self._writer = SegmentWriter(self._folder, self._free(serial), self._group, ENDING)
        return self._writer

    def _free(self, serial: int) -> int:
        """The serial by which a segment is named: one that could not be written may be there under its first."""
        while (self._folder / f"{serial:020d}{ENDING}").exists():
            serial += 1
        return serial

    def _end_segment(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    # --- removing -----------------------------------------------------------------------------------------------

    async def committed(self, letters: Sequence[Letter]) -> None:
        """The database has these, and its position says so.

        Raises:
            OSError: a segment cannot be removed.
        """
        if not letters:
            return
        for letter in letters:
            self._forget(letter)
            self._retried = max(self._retried, letter.serial)
        async with self._turn:
            await asyncio.to_thread(self._note)
        self.passed(self._passed)

    def _note(self) -> None:
        partial = self._folder / f"{RETRIED}.partial"
        partial.write_text(f"{self._retried}\n")
        partial.replace(self._folder / RETRIED)

    def passed(self, position: int) -> None:
        """The database has the blocks up to this number: none of them comes again after a crash."""
        self._passed = position
        if not self._turn.locked():
            for path in list(self._done(position)):
                self._remove(path)

    def _done(self, position: int) -> Iterator[Path]:
        for path, segment in self._segments.items():
            if not segment.pending and segment.number <= position and not segment.has_more:
                yield path

    def _remove(self, path: Path) -> None:
        if self._writer is not None and self._writer.path == path:
            self._end_segment()
        path.unlink(missing_ok=True)
        del self._segments[path]
        if not self._segments:
            self._of_number.clear()

    async def discard(self) -> Amount:
        """Throw away all that is pending; return how much it was.

        Raises:
            OSError: a segment cannot be removed.
        """
        async with self._turn:
            gone = replace(self.amount)
            self._end_segment()
            await asyncio.to_thread(self._unlink, list(self._segments))
            for letter in self.pending:
                self._forget(letter)
            self._segments.clear()
            self._of_number.clear()
        return gone

    def _unlink(self, paths: Sequence[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)
        sync_folder(self._folder)

    def close(self) -> None:
        """Let go of the segment that is being written."""
        self._end_segment()

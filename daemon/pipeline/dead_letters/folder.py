"""The dead letters of one group: a folder of segments, and the letters in them."""

import asyncio
import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from daemon.core.outside import Outside
from daemon.pipeline.closed_blocks import ASIDE, Key, keys_of, revised_keys, times_in
from daemon.pipeline.dead_letters.format import ENDING, Found, Letter, Reason, read, scan
from daemon.pipeline.dead_letters.index import Index, Segment
from daemon.pipeline.dead_letters.marks import DISCARDED, RETRIED, Marks
from daemon.pipeline.dead_letters.retried import PutBack, Retried
from daemon.pipeline.dead_letters.writing import Writing
from daemon.pipeline.files import Amount
from daemon.pipeline.files.deferred import Deferred
from daemon.pipeline.files.format import BadRecord, counted_of, group_checksum
from daemon.pipeline.files.identity import Identity
from daemon.pipeline.files.segment import paths_in
from schemas.batch import ClosedBlock, JournalPosition
from schemas.readings import Array, InstrumentGroup

MOVED_TOGETHER = 256

QUOTA_BYTES = 2**30
"""What dead letters may take of the disk before nothing more is set aside."""

NOWHERE = JournalPosition(sequence=0)


def folder_of(state_dir: Path, group: str) -> Path:
    """Where the dead letters of a group are."""
    return state_dir / "dead-letters" / group


class DeadLetters:
    """Keep, look up, read, remove. Use `open` first where letters may lie there already, and `look` only to read them.

    All but `open`, `look`, `read` and what is awaited returns at once.

    discards: how often all was thrown away. discarded_readings: what of it the database had rejected. lost: readings
    that the database had taken of them, and has no more, nor has the folder; at least so many.
    quota_bytes: `room` is what is left of it; `keep` does not look at it.
    """

    def __init__(
        self, folder: Path, group: InstrumentGroup, outside: Outside, *, quota_bytes: int = QUOTA_BYTES
    ) -> None:
        self.discards = 0
        self.discarded_readings = 0
        self.lost = 0
        self._folder = folder
        self._group = group
        self._quota_bytes = quota_bytes
        self._clock, self._disk, self._workers = outside.clock, outside.disk, outside.workers
        self._identity = Identity(folder, outside)
        self._index = Index()
        self._writing = Writing(outside.disk, folder, group, self._identity, self._index.segments)
        self._ids_found: set[int] = set()  # in the heads of segments
        self._unread_bytes = 0
        self._deferred = Deferred(folder)
        self._next = 1
        self._layout = group_checksum(group)
        self._marks = Marks(folder, outside.disk)
        self._retried = Retried(folder, outside, self._marks, self._layout)
        self._journal = 0
        self._passed = 0
        self._times: dict[int, Array] = {}  # of triggers, by serial, as far as they were asked for
        self._turn = asyncio.Lock()

    def open(
        self,
        *,
        retried: JournalPosition | None = None,
        journal: int = 0,
    ) -> list[Found]:
        """Take the folder over from the process before, and `look` through it; only for who holds the state folder.

        retried: where the database is in this folder, if it is an id of this one that it names: up to there it has the
        letters that were retried; None where nobody asked it. journal: what the numbers of blocks are of that come.

        Raises:
            OSError: the folder cannot be used.
        """
        self._journal = journal
        paths = paths_in(self._disk, self._folder, ENDING)
        if paths:
            # The process before may have been killed before it had synced what it wrote last: that is on the disk by
            # the time that anything is acknowledged because it is here.
            self._deferred.do(partial(self._write_anew, paths[-1]))
        unreadable = self.look(retried=retried)
        if self.id:
            # In a copy of the folder the same numbers are given out, to other letters.
            self._identity.succeed({(retried or NOWHERE).journal, *self._ids_found})
        if paths:
            # Before a position names it.
            self._deferred.do(partial(self._identity.take, self._next))
        return unreadable

    def _write_anew(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):  # nothing of it was wanted any more
            self._disk.replace(path, self._disk.read(path, 0, self._disk.size(path)))

    def look(self, *, retried: JournalPosition | None = None) -> list[Found]:
        """Look through the folder, which another process may write to; return what cannot be read in whole.

        It writes nothing: a running daemon holds the file that it writes to open, whatever takes its name.
        retried: as for `open`.

        Raises:
            OSError: the folder cannot be read.
        """
        self._identity.load()
        self._marks.load()
        self._retried.load()
        if retried is not None:
            self._retried.compare(retried, self.ids)
        found = self._scan()
        self._take_up(found)
        self.lost = self._retried.lost(self.to_retry)
        serials = [letter.serial for segment in found for letter in segment.letters]
        self._next = max(self._identity.next, self._marks.next, *(serial + 1 for serial in serials))
        return [segment for segment in found if segment.is_other or segment.damaged]

    def _scan(self) -> list[Found]:
        return [scan(self._disk, path, self._group) for path in paths_in(self._disk, self._folder, ENDING)]

    def _take_up(self, found: Sequence[Found]) -> None:
        """Take up what segments hold, by the marks."""
        self._index.clear()
        self._ids_found = {segment.folder for segment in found}
        ours = [segment for segment in found if not segment.is_other]
        newest = {letter.origin: letter.serial for segment in ours for letter in segment.letters}
        self._unread_bytes = sum(segment.nbytes for segment in found if segment.is_other)
        for segment in ours:
            self._index.segments[segment.path] = Segment(nbytes=segment.nbytes, has_more=bool(segment.damaged))
            for letter in segment.letters:
                is_over = segment.folder in self.ids and self._marks.cover(letter)
                self._index.remember(letter, pending=newest[letter.origin] == letter.serial and not is_over)
                if is_over and not letter.is_aside:
                    # Its block may come again, without it: what the next ones say of its trigger is not so.
                    self._index.note_discarded(letter.key)

    @property
    def id(self) -> int:
        """Which folder a position belongs to that is written from now on; 0 until it has kept a letter."""
        return self._identity.id

    @property
    def ids(self) -> frozenset[int]:
        """The id, and those that it had before: positions under these are its own."""
        return self._identity.ids

    @property
    def room(self) -> int:
        """Bytes that are left of the quota; below 0 when more was kept."""
        return self._quota_bytes - self._unread_bytes - self._index.nbytes

    # --- looking up ---------------------------------------------------------------------------------------------

    @property
    def amount(self) -> Amount:
        """What is pending."""
        return self._index.amount

    @property
    def aside_readings(self) -> int:
        """How many readings of it assembly set aside."""
        return self._index.aside_readings

    @property
    def pending(self) -> list[Letter]:
        """All that is neither committed nor discarded, by serial."""
        return list(self._index.pending.values())

    @property
    def aside_since_ns(self) -> int | None:
        """When the oldest was kept of what assembly set aside (UTC); None without any."""
        return next((letter.kept_ns for letter in self._index.aside.values()), None)

    @property
    def to_retry(self) -> Iterator[Letter]:
        """What of it a database may take, by serial."""
        return (letter for letter in self._index.pending.values() if not letter.is_aside)

    def upto(self, serial: int) -> Iterator[Letter]:
        """Those to retry, up to a serial."""
        return itertools.takewhile(lambda letter: letter.serial <= serial, self.to_retry)

    def concerns(self, number: int, block: ClosedBlock) -> bool:
        """Whether a block has to be taken apart before it is committed: it, or what it revises, is in part rejected."""
        if self.has_part(number):
            return True
        return bool(self._index.of_key) and any(key in self._index.of_key for key in revised_keys(block))

    def may_lack(self, block: ClosedBlock) -> bool:
        """Whether readings may have been discarded that revised ledger rows of a block count."""
        newest = self._index.newest_discarded
        return bool(newest) and any(trigger <= newest.get(run, 0) for run, trigger in revised_keys(block))

    def has_part(self, number: int) -> bool:
        """Tell whether a part of a block was kept that the database would get, whatever became of it since."""
        return any(run != ASIDE for run, _ in self.of_block(number))

    def of_block(self, number: int) -> set[Key]:
        """The keys of what was kept of a block, whatever became of it since."""
        return self._index.of_block.get((self._journal, number), set())

    def has(self, key: Key) -> bool:
        """Whether anything of a trigger is pending."""
        return key in self._index.of_key

    async def read_triggers(self, keys: Iterable[Key]) -> list[ClosedBlock]:
        """Read all that is pending of these triggers; raises OSError."""
        wanted = [letter for key in keys for letter in self._index.of_key.get(key, ())]
        return [block for _, block in await self.read_all(wanted)] if wanted else []

    async def read_aside(self, number: int) -> list[tuple[Letter, ClosedBlock]]:
        """Read all that is pending of what a block set aside; raises OSError."""
        of = (self._journal, number)
        return await self.read_all([each for each in self._index.aside.values() if (each.journal, each.number) == of])

    def is_blocked(self, letter: Letter, among: Collection[Letter]) -> bool:
        """Whether something of the same trigger that came before it is pending and not among those."""
        # A report on change waits for none: the store has its value, or another one.
        same = () if self._group.reports else self._index.of_key.get(letter.key, ())
        return len(same) > 1 and any(other.origin < letter.origin and other not in among for other in same)

    def read(self, letter: Letter) -> ClosedBlock:
        """Read what a letter holds; raises BadRecord or OSError where that cannot be."""
        return read(self._disk, letter, self._group)

    async def times(self) -> Array:
        """The times (int64 ns) of triggers of all that may still be committed; each letter is read for it once.

        Raises:
            OSError: the disk failed.
        """
        while unread := [each for each in self.to_retry if each.serial not in self._times]:
            for start in range(0, len(unread), MOVED_TOGETHER):
                # Not all at once: they may be more than memory has room for. What is moved meanwhile is read where it
                # is then.
                some = [each for each in unread[start : start + MOVED_TOGETHER] if each.serial in self._index.pending]
                for letter, block in await self.read_all(some):
                    self._times[letter.serial] = np.concatenate(times_in(block))
        self._times = {each.serial: self._times[each.serial] for each in self.to_retry}
        return np.concatenate([np.empty(0, np.int64), *self._times.values()])

    async def read_all(self, letters: Sequence[Letter]) -> list[tuple[Letter, ClosedBlock]]:
        """Read letters; one that is damaged since is left out: its segment stays, and it is pending no more.

        Raises:
            OSError: the disk failed.
        """
        found = await self._workers.call(lambda: [self.read_whole(letter) for letter in letters])
        for letter, block in zip(letters, found, strict=True):
            # Another one who read it may have found that first.
            if block is None and letter.serial in self._index.pending:
                self._index.lose(letter)
        return [(letter, block) for letter, block in zip(letters, found, strict=True) if block is not None]

    def read_whole(self, letter: Letter) -> ClosedBlock | None:
        """Read what a letter holds; None where that is damaged. Raises OSError."""
        try:
            return self.read(letter)
        except BadRecord:
            return None

    # --- keeping ------------------------------------------------------------------------------------------------

    def address(self, parts: Sequence[tuple[ClosedBlock, Reason]], number: int) -> list[tuple[Letter, ClosedBlock]]:
        """Make letters of parts of a block, each with the reason; `keep` may be tried with them repeatedly."""
        return [
            (
                Letter(
                    serial=0,
                    origin=0,
                    journal=self._journal,
                    number=number,
                    key=keys_of(block)[0],
                    triggers=block.triggers,
                    readings=counted_of(block),
                    kept_ns=self._clock.now().utc_ns,
                    reason=reason.text,
                    detail=reason.detail,
                ),
                block,
            )
            for block, reason in parts
        ]

    async def keep(self, letters: Sequence[tuple[Letter, ClosedBlock]]) -> None:
        """Put letters on the disk, behind all others; returns when they are there.

        Raises:
            OSError: they may not be.
        """
        async with self._turn:
            await self._workers.call(self._deferred.settle)
            await self._workers.call(self._writing.forget_failed)
            numbered = [(self._numbered(letter, k, len(letters)), block) for k, (letter, block) in enumerate(letters)]
            for letter in await self._workers.call(self._writing.write, numbered):
                self._index.remember(letter, pending=True)
        with contextlib.suppress(OSError):  # tried again with the next ones, and at the end
            await self._note_discarded()

    def _numbered(self, letter: Letter, part: int, parts: int) -> Letter:
        """The letter with the next serial: never one that was taken before, since a retry may be above that by now."""
        serial = self._next
        self._next += 1
        return replace(letter, serial=serial, origin=letter.origin or serial, part=part, parts=parts)

    async def move(self, letters: Sequence[Letter]) -> None:
        """Write letters again, behind all others, with their origin.

        Raises:
            OSError: they are where they were.
        """
        for start in range(0, len(letters), MOVED_TOGETHER):
            whole = await self.read_all(letters[start : start + MOVED_TOGETHER])
            if whole:
                await self.keep(whole)
            for letter, _ in whole:
                self._index.forget(letter)

    async def forget_failed(self) -> None:
        """Remove the copies that failed writes left: nothing may be committed that would come back from one.

        Raises:
            OSError: they are still there.
        """
        if self._writing.failed:
            async with self._turn:
                await self._workers.call(self._writing.forget_failed)

    # --- removing -----------------------------------------------------------------------------------------------

    async def committed(self, letters: Sequence[Letter], position: JournalPosition) -> None:
        """The database has these, and says so by this position, which is of this folder.

        Raises:
            OSError: what says so in the folder cannot be written.
        """
        if not letters:
            return
        for letter in letters:
            self._index.forget(letter)
            self._marks.set(RETRIED, self._layout, letter.serial)
        self._retried.take(position)
        await self.note()
        self.passed(self._passed)

    async def note_found(self, retried: JournalPosition | None) -> None:
        """Note where the database was found at the start, once what it lost is told; raises OSError.

        retried: see `position_of_letters`.
        """
        self._retried.settle(retried, self.ids)
        await self.note()

    async def put_back(self, found: JournalPosition | None) -> PutBack:
        """See whether the database has lost what it had taken: what of that lies here is pending again.

        Not while letters are being offered, or moved. found: see `position_of_letters`. `note` has to follow.

        Raises:
            OSError: the folder cannot be read.
        """
        if found is None or not self._retried.is_behind(found, self.ids):
            self._retried.settle(found, self.ids)
            return PutBack()
        async with self._turn:
            await self._workers.call(self._writing.forget_failed)
            segments = await self._workers.call(self._scan)
            self._retried.compare(found, self.ids)
            before = self.amount.readings
            self._take_up(segments)
        lost = self._retried.lost(self.to_retry)
        self._retried.settle(found, self.ids)
        self.lost += lost
        return PutBack(lost=lost, pending=max(0, self.amount.readings - before))

    async def note(self) -> None:
        """Put on the disk where the database is, if it says something else; raises OSError."""
        if self._deferred or not self._retried.is_written:
            async with self._turn:
                await self._workers.call(self._deferred.settle)
                await self._workers.call(self._retried.write)
        await self._note_discarded()

    async def _note_discarded(self) -> None:
        if not self._marks.is_written(DISCARDED):
            async with self._turn:
                await self._workers.call(self._marks.write, DISCARDED)

    def passed(self, position: int) -> None:
        """The database has the blocks up to this number: none of them comes again after a crash."""
        self._passed = position
        if not self._turn.locked():
            for path in list(self._index.done(self._journal, position, self._writing.failed)):
                with contextlib.suppress(OSError):  # what cannot be removed now is removed behind a later commit
                    self._remove(path)

    def _remove(self, path: Path) -> None:
        self._writing.end(path)
        self._disk.remove(path)
        self._index.drop(path)

    async def discard(self) -> Amount:
        """Throw away all that is pending; return how much it was. A segment goes as after a commit.

        Raises:
            OSError: the disk failed.
        """
        async with self._turn:
            if not self._index.pending:
                return Amount()  # its folder may never have been made
            await self._mark_discarded()
            gone = replace(self.amount)
            self.discards += 1
            self.discarded_readings += self.amount.readings - self.aside_readings
            for key in self._index.of_key:
                self._index.note_discarded(key)
            for letter in self.pending:
                self._index.forget(letter)
        self.passed(self._passed)
        return gone

    async def _mark_discarded(self) -> None:
        before = self._marks.upto(DISCARDED, self._layout)
        self._marks.set(DISCARDED, self._layout, self._next - 1)
        try:
            await self._workers.call(self._marks.write, DISCARDED)
        except OSError:
            self._marks.put(DISCARDED, self._layout, before)
            with contextlib.suppress(OSError):  # the file may say all the same that they are gone
                await self._workers.call(self._marks.write, DISCARDED)
            raise

    def close(self) -> None:
        """Let go of the segment that is being written."""
        self._writing.end()

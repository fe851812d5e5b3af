"""The dead letters of one group: a folder of files, and the letters in them."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from daemon.core.outside import Outside
from daemon.pipeline.closed_blocks import ASIDE, Key, keys_of, revised_keys, times_in
from daemon.pipeline.dead_letters.format import ENDING, Found, Letter, Reason, ids_in, read, scan
from daemon.pipeline.dead_letters.index import Index
from daemon.pipeline.dead_letters.writing import Writing
from daemon.pipeline.files import Amount
from daemon.pipeline.files.acknowledged import NOWHERE, Acknowledged, readings_behind
from daemon.pipeline.files.format import BadRecord, counted_of
from daemon.pipeline.files.segment import make_folder, paths_in
from daemon.pipeline.fitting import count_fitting
from schemas.batch import ClosedBlock, JournalPosition
from schemas.readings import Array, InstrumentGroup

READ_TOGETHER = 256

QUOTA_BYTES = 2**30
"""What dead letters may take of the disk before nothing more is set aside."""


def folder_of(state_dir: Path, group: str) -> Path:
    """Where the dead letters of a group are."""
    return state_dir / "dead-letters" / group


class DeadLetters:
    """Keep, look up, read, remove. Use `open` first where letters may lie there already, and `look` only to read them.

    All but `open`, `look`, `read` and what is awaited returns at once.

    discards: how often all was thrown away. discarded_readings: what of it the database had rejected.
    quota_bytes: `room` is what is left of it; `keep` does not look at it.
    """

    def __init__(
        self, folder: Path, group: InstrumentGroup, outside: Outside, *, quota_bytes: int = QUOTA_BYTES
    ) -> None:
        self.discards = 0
        self.discarded_readings = 0
        self._folder = folder
        self._group = group
        self._quota_bytes = quota_bytes
        self._clock, self._disk, self._workers, self._rng = outside.clock, outside.disk, outside.workers, outside.rng
        self._writing = Writing(outside.disk, folder, group)
        self._acknowledged = Acknowledged(folder, outside)
        self._noted = self._on_disk = NOWHERE  # where the database is with what was retried
        self._next = 1
        self._times: dict[int, Array] = {}  # of triggers, by serial, as far as they were asked for
        self._turn = asyncio.Lock()  # of who reads or writes the files

    def open(self) -> list[Found]:
        """Take the folder over from the process before, and `look` through it; only for who holds the state folder.

        Raises:
            OSError: the folder cannot be used.
        """
        paths = paths_in(self._disk, self._folder, ENDING)
        if paths:
            self._writing.sync_again(paths[-1])
        return self.look()

    def look(self) -> list[Found]:
        """Look through the folder, which another process may write to; return what cannot be read in whole.

        Raises:
            OSError: the folder cannot be read.
        """
        self._noted = self._on_disk = self._acknowledged.read()
        found = [scan(self._disk, path, self._group) for path in paths_in(self._disk, self._folder, ENDING)]
        self._writing.index = Index(found)
        self._next = max((letter.serial + 1 for each in found for letter in each.letters), default=1)
        return [each for each in found if each.is_earlier or each.is_other or each.damaged]

    @property
    def _index(self) -> Index:
        return self._writing.index

    @property
    def room(self) -> int:
        """Bytes that are left of the quota; below 0 when more was kept."""
        return self._quota_bytes - self._index.nbytes

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
        return self._index.of_block.get(number, set())

    def passed(self, number: int) -> None:
        """The database has the blocks up to this number: none of them comes again."""
        for old in [each for each in self._index.of_block if each <= number]:
            del self._index.of_block[old]

    def has(self, key: Key) -> bool:
        """Whether anything of a trigger is pending."""
        return key in self._index.of_key

    def is_blocked(self, letter: Letter, among: Collection[Letter]) -> bool:
        """Whether something of the same trigger that came before it is pending and not among those."""
        # A report on change waits for none: the store has its value, or another one.
        same = () if self._group.reports else self._index.of_key.get(letter.key, ())
        return len(same) > 1 and any(other.serial < letter.serial and other not in among for other in same)

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, letter: Letter) -> ClosedBlock:
        """Read what a letter holds; raises BadRecord or OSError where that cannot be."""
        return read(self._disk, letter, self._group)

    async def read_all(self, letters: Sequence[Letter]) -> list[tuple[Letter, ClosedBlock]]:
        """Read letters that are pending; one that is damaged since is left out, and is pending no more.

        Raises:
            OSError: the disk failed.
        """
        async with self._turn:
            pending = [letter for letter in letters if letter.serial in self._index.pending]
            blocks = await self._workers.call(lambda: [self._read_whole(letter) for letter in pending])
            for letter, block in zip(pending, blocks, strict=True):
                if block is None and letter.serial in self._index.pending:
                    self._index.lose(letter)
        return [(letter, block) for letter, block in zip(pending, blocks, strict=True) if block is not None]

    def _read_whole(self, letter: Letter) -> ClosedBlock | None:
        try:
            return self.read(letter)
        except BadRecord:
            return None

    async def read_triggers(self, keys: Iterable[Key]) -> list[ClosedBlock]:
        """Read all that is pending of these triggers; raises OSError."""
        wanted = [letter for key in keys for letter in self._index.of_key.get(key, ())]
        return [block for _, block in await self.read_all(wanted)] if wanted else []

    async def read_aside(self, number: int) -> list[tuple[Letter, ClosedBlock]]:
        """Read all that is pending of what a block set aside; raises OSError."""
        return await self.read_all([each for each in self._index.aside.values() if each.number == number])

    async def times(self) -> Array:
        """The times (int64 ns) of triggers of all that may still be committed; each letter is read for it once.

        Raises:
            OSError: the disk failed.
        """
        while unread := [each for each in self.to_retry if each.serial not in self._times]:
            # Not all at once: they may be more than memory has room for.
            for start in range(0, len(unread), READ_TOGETHER):
                for letter, block in await self.read_all(unread[start : start + READ_TOGETHER]):
                    self._times[letter.serial] = np.concatenate(times_in(block))
        self._times = {each.serial: self._times[each.serial] for each in self.to_retry}
        return np.concatenate([np.empty(0, np.int64), *self._times.values()])

    def last_blocks(self, most: int) -> list[ClosedBlock]:
        """Read at a start the letters that close the last triggers, at most so many, and all that came since.

        In their order, without what is damaged. What came late for a trigger is a letter of its own.

        Raises:
            OSError: the disk failed.
        """
        letters = list(self.to_retry)
        closing = [k for k, letter in enumerate(letters) if letter.triggers]
        return self._blocks_of(letters[closing[-most] if len(closing) > most else 0 :])

    def newest_blocks(self, most_bytes: int) -> list[ClosedBlock]:
        """Read at a start the newest of all that is pending, at most so many bytes, without what is damaged.

        Raises:
            OSError: the disk failed.
        """
        newest = self.pending[::-1]
        return self._blocks_of(newest[: count_fitting((each.end - each.start for each in newest), most_bytes)])

    def _blocks_of(self, letters: Iterable[Letter]) -> list[ClosedBlock]:
        return [block for block in map(self._read_whole, letters) if block is not None]

    # --- keeping ------------------------------------------------------------------------------------------------

    def address(self, parts: Sequence[tuple[ClosedBlock, Reason]], number: int) -> list[tuple[Letter, ClosedBlock]]:
        """Make letters of parts of a block, each with the reason; `keep` may be tried with them repeatedly."""
        kept_ns = self._clock.now().utc_ns
        return [
            (
                Letter(
                    key=keys_of(block)[0],
                    triggers=block.triggers,
                    readings=counted_of(block),
                    kept_ns=kept_ns,
                    reason=reason.text,
                    detail=reason.detail,
                    number=number,
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
            for letter, _ in letters:
                letter.serial, self._next = self._next, self._next + 1
            await self._workers.call(self._writing.write, letters)
            for letter, _ in letters:
                self._index.remember(letter)

    # --- removing -----------------------------------------------------------------------------------------------

    def compare(self, found: JournalPosition | None) -> int:
        """See what the database has of the letters; `note` has to follow.

        found: see `position_of_letters`. Letters are removed that it took when its answer, or this process, was lost.

        Returns how many readings it had taken and has no more: it was put back to an older state.
        """
        if found is None:
            self._noted = NOWHERE  # the next position is compared with nothing
            return 0
        lost = readings_behind(self._noted, found, ())
        ids = ids_in(found.state)
        for letter in [letter for letter in self.to_retry if letter.id in ids]:
            self._index.remove(letter)
        self._noted = replace(found, state=b"")
        return lost

    async def committed(self, letters: Iterable[Letter], position: JournalPosition) -> None:
        """The database has these: they are removed. No more may be committed before.

        Raises:
            OSError: they may still be on the disk.
        """
        for letter in letters:
            if letter.serial in self._index.pending:  # it may have been discarded meanwhile
                self._index.remove(letter)
        self._noted = replace(position, state=b"")
        await self.note()

    async def note(self) -> None:
        """Put on the disk what was removed, and where the database is, if it says something else; raises OSError."""
        if self._noted != self._on_disk or not self._writing.is_settled:
            async with self._turn:
                await self._workers.call(self._note, self._noted)

    def _note(self, noted: JournalPosition) -> None:
        self._writing.settle()
        # After that: what it counts is in no file any more.
        if noted != self._on_disk:
            make_folder(self._disk, self._folder)
            self._acknowledged.note(noted)
            self._acknowledged.write()
            self._on_disk = noted

    async def discard(self) -> Amount:
        """Throw away all that is pending; return how much it was.

        Raises:
            OSError: some of it may still be on the disk.
        """
        async with self._turn:
            if not self._index.pending:
                return Amount()  # its folder may never have been made
            gone, rejected = replace(self.amount), self.amount.readings - self.aside_readings
            self.discards += 1
            letters = self.pending
            for letter in letters:
                self._index.note_discarded(letter.key)
                self._index.remove(letter)
            try:
                await self._workers.call(self._writing.settle)
            except OSError:
                self._index.restore(letters)
                raise
            finally:
                self.discarded_readings += rejected - (self.amount.readings - self.aside_readings)
        return gone

    def new_round(self) -> int:
        """An id for a round of retrying, by which the database tells its commits from those of any other."""
        return self._rng.getrandbits(63) or 1

    def close(self) -> None:
        """Let go of the file that is being written."""
        self._writing.end()

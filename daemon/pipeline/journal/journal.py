"""The journal of one group: closed triggers on disk until the database has them.

Blocks are numbered in the order in which they closed, in ascending order and never twice, and a number that was ever
handed out is not handed out again: up to which number the database has them says which are still to be committed. Such
a position counts for the journal alone whose id it names. The id is another one after each start, and the journal knows
those that it had: where a copy of its folder was written to meanwhile, the position names an id that it never had.

Everything here blocks, and is called from one thread at a time; the event loop uses `keeper`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from backends.folder_lock import FolderInUse
from daemon.core.outside import Lock, Outside
from daemon.core.outside.disk import Buffer
from daemon.pipeline.journal.deferred import Deferred
from daemon.pipeline.journal.errors import FULL, JournalError, JournalFull
from daemon.pipeline.journal.format import counted_of, encode, segment_head
from daemon.pipeline.journal.found import JournalRecovery
from daemon.pipeline.journal.growing import Growing
from daemon.pipeline.journal.identity import Identity
from daemon.pipeline.journal.opening import open_folder
from daemon.pipeline.journal.others import Others
from daemon.pipeline.journal.sealed import Sealed, size_of
from daemon.pipeline.journal.segment import INDEX, Damage, make_folder, path_of
from schemas.batch import ClosedBlock, JournalPosition
from schemas.readings import Array, InstrumentGroup

LOCK = "lock"


class Journal:
    """Append, sync, read, trim. Use `open` first.

    Args:
        folder: of this group alone; made if it is not there.
        max_bytes: what all segments together may hold.
        segment_bytes: a segment is sealed when it has so many.
        state: called when a segment begins, with the number of its first block, in the thread that appends. What it
            returns goes into the segment's head: what is to be known of the blocks below that number, and no others.
    """

    def __init__(
        self,
        folder: Path,
        group: InstrumentGroup,
        outside: Outside,
        *,
        max_bytes: int,
        segment_bytes: int,
        state: Callable[[int], bytes] = lambda first: b"",
    ) -> None:
        self.next = 1
        self.outside = outside
        self._disk = outside.disk
        self._folder = folder
        self._group = group
        self._state = state
        self._identity = Identity(folder, outside)
        self.change_limits(max_bytes=max_bytes, segment_bytes=segment_bytes)
        self._deferred = Deferred(folder)
        self._sealed = Sealed(outside.disk, folder, group, self._deferred)
        self._others = Others(outside.disk, self._sealed, self._deferred)
        self._growing = Growing(outside.disk, self._sealed, segment_head(group, 0))
        self._last = 0  # the last number that was written, or that the database has
        self._synced = 0
        self._lock: Lock | None = None
        self._held = 0  # what was found up to this number, the database has

    @property
    def id(self) -> int:
        """Which journal a position belongs to that is written from now on; not 0 once it is open."""
        return self._identity.id

    @property
    def ids(self) -> frozenset[int]:
        """The id, and those that it had before: positions under these are its own."""
        return self._identity.ids

    @property
    def nbytes(self) -> int:
        """Bytes of its segments together, without those of other journals."""
        return self._sealed.nbytes + self._growing.nbytes

    @property
    def unreadable(self) -> list[Damage]:
        """Records that were whole at the start, and are not any more."""
        return self._sealed.unreadable

    @property
    def room(self) -> int:
        """Bytes that may still be appended; a new segment begins with its head."""
        return self._max_bytes - self.nbytes - len(self._growing.head)

    def free_room(self) -> int:
        """Bytes that may be appended before the limit or the end of the disk's free space; 0 if that is unknown."""
        try:
            return max(0, min(self.room, self._disk.free(self._folder)))
        except OSError:
            return 0

    def change_limits(self, *, max_bytes: int, segment_bytes: int) -> None:
        """Let it hold so much from now on; may be called from any thread, and what it holds already stays."""
        self._max_bytes = max_bytes
        self._segment_bytes = min(segment_bytes, max(1, max_bytes // 4))

    # --- opening ------------------------------------------------------------------------------------------------

    def open(self, position: JournalPosition | None, *, holds: bool = False) -> JournalRecovery:
        """Take the folder, look through its segments, and set aside what is damaged.

        What the disk does not take of that is done before anything is appended, and with `sync`: until then `problem`
        of what is returned says why, and nothing is in the journal but what was found.

        position: where the database is. If that is the position of this journal, it has the blocks up to there, and
        they go; the position of another one says nothing. None if the database could not be asked.
        holds: leave what the database has until `trim`: it may lose that again.

        Raises:
            JournalError: another process has the journal, or it holds readings of a group laid out otherwise.
            OSError: the folder cannot be read.
        """
        self._deferred.do(partial(make_folder, self._disk, self._folder))
        self._deferred.do(self._take_lock)
        try:
            return self._recover(position, holds=holds)
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def has_deferred(self) -> bool:
        """Whether the disk has not taken what belongs to the opening: the id, if nothing else."""
        return bool(self._deferred)

    def defer(self, step: Callable[[], None]) -> None:
        """Do something on the disk that has to be there before what is appended; see `Deferred`."""
        self._deferred.do(step)

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        try:
            self._lock = self._disk.lock(self._folder / LOCK)
        except FolderInUse:
            raise JournalError(
                f"{self._folder} is used by another daemon; stop it, or set another `state_dir`"
            ) from None

    def _recover(self, position: JournalPosition | None, *, holds: bool) -> JournalRecovery:
        opened = open_folder(
            self._disk,
            self._folder,
            self._group,
            position,
            holds=holds,
            identity=self._identity,
            sealed=self._sealed,
            others=self._others,
            deferred=self._deferred,
        )
        self._last, self.next, self._held = opened.recovery.reach, opened.next, opened.held_upto
        return replace(opened.recovery, problem=self._make_durable(opened.synced))

    def _make_durable(self, synced: int) -> str | None:
        """Have on the disk what was found, or say why not.

        Syncing proves nothing of what another process wrote: after a sync that failed the system takes it for written.
        What a record says was synced when it was written is on the disk; the rest is written anew.
        """
        for segment in self._sealed:
            segment.is_durable = int(segment.found["sequence"].max(initial=0)) <= synced
        self._others.doubt()
        try:
            self.sync()
        except OSError as error:
            return f"what was found in the journal cannot be put on the disk: {error}"
        return None

    # --- writing ------------------------------------------------------------------------------------------------

    def append(self, blocks: Sequence[ClosedBlock], first: int | None = None) -> int:
        """Append blocks, all of them or none; they get the numbers from `first` on. Return the last number.

        first: `next`, if it is not given; a higher one leaves numbers out, which the database has by now.

        They survive the end of this process, and after `sync` that of the machine.

        Raises:
            JournalFull: there is no room.
            OSError: the disk failed.
        """
        first = self.next if first is None else first
        assert first >= self.next, "a number is never used twice"
        last = first + len(blocks) - 1
        records = [self._encode(number, block, first) for number, block in enumerate(blocks, first)]
        size = sum(size_of(record) for record in records)
        if size > self.room:
            raise JournalFull(f"{self.nbytes / 2**20:.0f} of {self._max_bytes / 2**20:.0f} MiB are in use")
        try:
            self._deferred.settle()
            self._identity.take(last)
            self._begin(size, first)
            self._last = self._growing.append(blocks, records, first, self._last)
        except OSError as error:
            # What of them is there is whole or not: nothing may be written behind it. A full disk has room again only
            # when the segment can go.
            self._growing.end()
            if error.errno in FULL:
                raise JournalFull(f"the disk of {self._folder} is full") from error
            raise
        self.next = last + 1
        return last

    def _encode(self, number: int, block: ClosedBlock, first: int) -> list[Buffer]:
        follows = self._last if number == first else number - 1
        return encode(number, block, self._group, follows=follows, synced=self._synced)

    def _begin(self, size: int, first: int) -> None:
        """Begin a segment with the block of this number, if there is none that has room for so many bytes."""
        growing = self._growing
        if growing.records and growing.nbytes + size > self._segment_bytes:
            growing.seal()
        if growing.path is None:
            head = segment_head(self._group, self.id, self._last, self._state(first))
            growing.begin(path_of(self._folder, first), head)

    @property
    def is_durable(self) -> bool:
        """Whether all that is to be committed, or taken again, is on the disk."""
        return not self._deferred and not self._growing.is_dirty and self._others.is_durable and self._sealed.is_durable

    def sync(self) -> int:
        """Wait until all that was appended is on the disk; return up to which number it is.

        Raises:
            OSError: it may not be; it is tried again with the next call, by writing it anew.
        """
        self._deferred.settle()
        self._sealed.sync()
        self._others.sync()
        self._growing.sync()
        self._synced = min([self.next - 1, *(number - 1 for number in self._sealed.missing)])
        return self._synced

    # --- reading and trimming -----------------------------------------------------------------------------------

    def read(self, after: int, most_bytes: int) -> list[tuple[int, ClosedBlock]]:
        """Read the first blocks with numbers above `after`: about so many bytes of them, and at least one if any is.

        One that is not whole any more is left out, set aside, and noted in `unreadable`.

        Raises:
            OSError: the disk failed.
        """
        found: list[tuple[int, ClosedBlock]] = []
        taken = 0
        for path, records in self._in_order():
            for sequence, _, start, end, *_ in records[records["sequence"] > after].tolist():
                if found and taken + end - start > most_bytes:
                    return found
                taken += end - start
                block = self._sealed.read(path, start, end)
                if block is not None:
                    found.append((sequence, block))
        return found

    def readings_found(self, after: int, upto: int) -> int:
        """How many readings it holds in blocks with numbers above `after` and up to `upto`, those aside included.

        Blocks behind a hole and those of other journals are among them: their readings come again as well.

        Raises:
            OSError: as `read`.
        """
        found = [(each.path, records) for each in self._sealed for records in (each.records, each.loose)]
        found += [(each.path, each.records) for each in self._others]
        count = 0
        for path, records in found:
            numbers = records["sequence"]
            between = records[(numbers > after) & (numbers <= upto)]
            count += sum(counted_of(block) for block in self._sealed.read_each(path, between))
        return count

    def read_last(self, triggers: int) -> tuple[list[ClosedBlock], bool]:
        """Read the last blocks that the database lacked, as many as hold so many triggers, in order.

        Returns them, and whether these are all.

        Raises:
            OSError: as `read`.
        """
        wanted: list[tuple[Path, list[int]]] = []
        left = triggers
        in_order = [(path, records[records["sequence"] > self._held]) for path, records in self._in_order()]
        for path, records in reversed(in_order):
            for record in records[::-1].tolist():
                if left <= 0:
                    break
                left -= record[4]
                wanted.append((path, record))
        blocks = (self._sealed.read(path, start, end) for path, (_, _, start, end, *_) in reversed(wanted))
        every = sum(len(records) for _, records in in_order)
        return [block for block in blocks if block is not None], len(wanted) == every

    def _in_order(self) -> Iterator[tuple[Path, Array]]:
        for segment in self._sealed:
            yield segment.path, segment.records
        if self._growing.path is not None:
            yield self._growing.path, np.array(self._growing.records, INDEX)

    def trim(self, position: int) -> None:
        """The database has everything up to this number: let go of segments that hold nothing else.

        Raises:
            OSError: a segment cannot be removed.
        """
        self._last, self.next = max(self._last, position), max(self.next, position + 1)
        self._sealed.trim(position)
        self._growing.trim(position, self._segment_bytes)

    # --- what is not this journal's history ---------------------------------------------------------------------

    def renew(self) -> None:
        """Take another id, and forget the former: to a later start all that was found is another journal's.

        What is loose goes through assembly again under higher numbers: a position at these must not count for it.
        """
        self._identity.renew()
        self.defer(partial(self._identity.take, self.next))

    def loosen(self) -> None:
        """Take all that was found for loose: it is not certain that it leads on from where the database is."""
        self._sealed.loosen()

    def drop_held(self) -> None:
        """Let go of what was found of what the database has; raises OSError."""
        self._sealed.trim(self._held)

    def read_loose(self) -> Iterator[ClosedBlock]:
        """Read the blocks behind a hole, in order; raises OSError."""
        return self._sealed.read_loose()

    def drop_loose(self) -> None:
        """Let go of the blocks behind a hole.

        Raises:
            OSError: they are still there.
        """
        self._sealed.drop_loose()

    def read_foreign(self) -> Iterator[ClosedBlock]:
        """Read the blocks of other journals, each journal's in order; raises OSError."""
        return self._others.read()

    def drop_foreign(self) -> None:
        """Remove the segments of other journals.

        Raises:
            OSError: some are still there.
        """
        self._others.drop()
        self._disk.sync_folder(self._folder)

    def close(self) -> None:
        """Put what was appended on the disk, and give the folder back; a segment that holds nothing more goes.

        Raises:
            OSError: it could not be put there.
        """
        try:
            if not self._growing.records:
                self._growing.drop()
            if not self.is_durable:
                self.sync()
        finally:
            if self._growing.path is not None:
                self._growing.seal()
            self._sealed.close()
            self._release()

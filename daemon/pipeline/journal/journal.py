"""The journal of one group: closed triggers on disk until the database has them.

Blocks are numbered in the order in which they closed, in ascending order and never twice, and a number that was ever
handed out is not handed out again: up to which number the database has them says which are still to be committed. Such
a position counts for the journal alone whose id it names. The id is another one after each start, and the journal knows
those that it had: where a copy of its folder was written to meanwhile, the position names an id that it never had.

Everything here blocks, and is called from one thread at a time; the event loop uses `keeper`.
"""

import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from backends.columns.filling import readings_in
from backends.folder_lock import FolderInUse
from daemon.core.outside import Disk, Lock, Outside
from daemon.core.outside.disk import Buffer
from daemon.pipeline.journal.chain import Chain, follow
from daemon.pipeline.journal.format import Head, counted, counted_of, encode, group_checksum, segment_head
from daemon.pipeline.journal.found import JournalRecovery, amount_of, foreign, journal_of
from daemon.pipeline.journal.identity import Identity, read_ids
from daemon.pipeline.journal.sealed import Sealed, SealedSegment, size_of
from daemon.pipeline.journal.segment import (
    ENDING,
    INDEX,
    NO_RECORDS,
    Damage,
    Scan,
    SegmentWriter,
    head_of,
    make_folder,
    path_of,
    paths_in,
    scan,
    set_aside,
    whole_records,
)
from schemas.batch import ClosedBlock, JournalPosition
from schemas.readings import Array, InstrumentGroup

LOCK = "lock"

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class JournalError(Exception):
    """The journal cannot be used; the message is one line: what is wrong, and what to do."""


class JournalFull(Exception):
    """There is no room: the limit is reached, or the disk is full. What was to be appended is not in the journal."""


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
        self._sealed = Sealed(outside.disk, folder, group)
        self._foreign: list[Scan] = []
        self._unsure: list[Scan] = []  # of these, what is not surely on the disk
        self._writer: SegmentWriter | None = None
        self._written: deque[tuple[int, ...]] = deque()  # as INDEX
        self._head = segment_head(group, 0)
        self._is_dirty = False  # something was appended since the last sync
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
        return self._sealed.nbytes + (0 if self._writer is None else self._writer.nbytes)

    @property
    def unreadable(self) -> list[Damage]:
        """Records that were whole at the start, and are not any more."""
        return self._sealed.unreadable

    @property
    def room(self) -> int:
        """Bytes that may still be appended; a new segment begins with its head."""
        return self._max_bytes - self.nbytes - len(self._head)

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

        position: where the database is. If that is the position of this journal, it has the blocks up to there, and
        they go; the position of another one says nothing. None if the database could not be asked.
        holds: leave what the database has until `trim`: it may lose that again.

        Raises:
            JournalError: another process has the journal, or it holds readings of a group laid out otherwise.
            OSError: the folder cannot be used.
        """
        make_folder(self._disk, self._folder)
        self._take_lock()
        try:
            return self._recover(position, holds=holds)
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _take_lock(self) -> None:
        try:
            self._lock = self._disk.lock(self._folder / LOCK)
        except FolderInUse:
            raise JournalError(
                f"{self._folder} is used by another daemon; stop it, or set another `state_dir`"
            ) from None

    def _recover(self, position: JournalPosition | None, *, holds: bool) -> JournalRecovery:
        self._identity.load()
        found = self._scan()
        damages = [damage for each in found for damage in each.damages]
        copies = [set_aside(self._disk, self._folder, damage) for damage in damages]
        ids = self._identity.ids
        own = [each for each in found if journal_of(each) in ids]
        self._identity.succeed({journal_of(each) for each in own} | {0 if position is None else position.journal})
        self._foreign = [each for each in found if each not in own and (each.head is not None or len(each.records))]
        chain = follow(own, ids, position)
        self._last = chain.reach
        self._number(found, position)
        held = chain.held if holds else [records[:0] for records in chain.held]
        self._held = max((int(records["sequence"].max(initial=0)) for records in held), default=0)
        self._take_over(found, own, chain, held)
        return JournalRecovery(
            amount=amount_of(chain.whole),
            held=np.concatenate([NO_RECORDS, *held]),
            damages=tuple(damages),
            copies=tuple(copies),
            loose=amount_of(chain.loose),
            hole=chain.hole,
            foreign=tuple(map(foreign, self._foreign)),
            reach=chain.reach,
            state=chain.state,
            state_at=chain.state_at,
            newest_state=next((each.head.state for each in reversed(own) if each.head is not None), b""),
            problem=self._make_durable(max((each.synced for each in own), default=0)),
        )

    def _scan(self) -> list[Scan]:
        for path in paths_in(self._disk, self._folder, f"{ENDING}.partial"):
            self._disk.remove(path)
        found = []
        for path in paths_in(self._disk, self._folder):
            found.append(scan(self._disk, path))
            self._check_group(found[-1])
        return found

    def _check_group(self, found: Scan) -> None:
        if found.groups - {group_checksum(self._group)}:
            raise JournalError(
                f"{found.path} holds readings of group {self._group.name!r} with other instruments or channels than"
                " the configuration has; run the daemon with the old configuration until all is committed, or move the"
                " file away"
            )

    def _number(self, found: Sequence[Scan], position: JournalPosition | None) -> None:
        """Begin with a number, and a name of a segment, that never was."""
        held = position.sequence if position is not None else 0
        numbers = [int(each.records["sequence"].max(initial=int(each.path.stem))) for each in found]
        self.next = max(self._identity.next, *(number + 1 for number in (held, *numbers)))
        self._identity.take(self.next)

    def _take_over(self, found: Sequence[Scan], own: Sequence[Scan], chain: Chain, held: Sequence[Array]) -> None:
        kept = {each.path for each in self._foreign}
        for each, has, lacks, loose in zip(own, held, chain.whole, chain.loose, strict=True):
            whole = np.concatenate([has, lacks])
            if len(whole) or len(loose):
                kept.add(each.path)
                head = self._disk.read(each.path, 0, each.head.nbytes if each.head else 0)
                segment = SealedSegment(path=each.path, head=head, nbytes=each.nbytes, records=whole, loose=loose)
                self._sealed.add(segment)
        for each in found:
            if each.path not in kept:
                self._disk.remove(each.path)
        self._disk.sync_folder(self._folder)

    def _make_durable(self, synced: int) -> str | None:
        """Have on the disk what was found, or say why not.

        Syncing proves nothing of what another process wrote: after a sync that failed the system takes it for written.
        What a record says was synced when it was written is on the disk; the rest is written anew.
        """
        for segment in self._sealed:
            segment.is_durable = int(segment.found["sequence"].max(initial=0)) <= synced
        for each in self._foreign:
            known = max(other.synced for other in self._foreign if journal_of(other) == journal_of(each))
            if int(each.records["sequence"].max(initial=0)) > known:
                self._unsure.append(each)
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
            self._identity.take(last)
            writer = self._writer_for(size, first)
            start = writer.nbytes
            writer.append(records)
        except OSError as error:
            # What of them is there is whole or not: nothing may be written behind it. A full disk has room again only
            # when the segment can go.
            self._end_segment()
            if error.errno in FULL:
                raise JournalFull(f"the disk of {self._folder} is full") from error
            raise
        self._is_dirty = True
        for number, block, record in zip(range(first, last + 1), blocks, records, strict=True):
            follows, end = self._last, start + size_of(record)
            self._written.append((number, follows, start, end, block.triggers, readings_in(block)))
            self._last, start = number, end
        self.next = last + 1
        return last

    def _encode(self, number: int, block: ClosedBlock, first: int) -> list[Buffer]:
        follows = self._last if number == first else number - 1
        return encode(number, block, self._group, follows=follows, synced=self._synced)

    def _writer_for(self, size: int, first: int) -> SegmentWriter:
        if self._writer is not None and self._writer.nbytes + size > self._segment_bytes and self._written:
            self._seal()
        if self._writer is None:
            self._head = segment_head(self._group, self.id, self._last, self._state(first))
            self._writer = self._begun(path_of(self._folder, first))
        return self._writer

    def _begun(self, path: Path) -> SegmentWriter:
        try:
            return SegmentWriter(self._disk, path, self._head)
        except FileExistsError:
            # A write failed, and so did the removal of its file: what that has is written now.
            self._disk.remove(path)
            return SegmentWriter(self._disk, path, self._head)

    def _seal(self) -> SealedSegment:
        """Let the segment that is written grow no more; it is on the disk as soon as its file is synced."""
        assert self._writer is not None
        segment = SealedSegment(
            path=self._writer.path,
            head=self._head,
            nbytes=self._writer.nbytes,
            records=np.array(self._written, INDEX),
            writer=self._writer,
            is_durable=not self._is_dirty,
        )
        self._sealed.add(segment)
        self._writer, self._written, self._is_dirty = None, deque(), False
        return segment

    def _end_segment(self) -> None:
        """Seal the segment that is written after a failure: what of it was not synced has to be written anew."""
        if self._written:
            self._seal().close()
        elif self._writer is not None:
            self._drop_segment()

    def _drop_segment(self) -> None:
        assert self._writer is not None
        writer, self._writer, self._is_dirty = self._writer, None, False
        writer.close()
        self._disk.remove(writer.path)

    @property
    def is_durable(self) -> bool:
        """Whether all that is to be committed, or taken again, is on the disk."""
        return not self._is_dirty and not self._unsure and self._sealed.is_durable

    def sync(self) -> int:
        """Wait until all that was appended is on the disk; return up to which number it is.

        Raises:
            OSError: it may not be; it is tried again with the next call, by writing it anew.
        """
        self._sealed.sync()
        while self._unsure:
            path = self._unsure[-1].path
            self._disk.replace(path, self._disk.read(path, 0, self._unsure[-1].nbytes))
            self._unsure.pop()
        if self._writer is not None and self._is_dirty:
            try:
                self._writer.sync()
            except OSError:
                self._end_segment()
                raise
            self._is_dirty = False
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
        found += [(each.path, each.records) for each in self._foreign]
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
        if self._writer is not None:
            yield self._writer.path, np.array(self._written, INDEX)

    def trim(self, position: int) -> None:
        """The database has everything up to this number: let go of segments that hold nothing else.

        Raises:
            OSError: a segment cannot be removed.
        """
        self._last, self.next = max(self._last, position), max(self.next, position + 1)
        self._sealed.trim(position)
        while self._written and self._written[0][0] <= position:
            self._written.popleft()
        if self._writer is not None and not self._written:
            self._is_dirty = False
            if self._writer.nbytes >= self._segment_bytes:
                self._drop_segment()

    # --- what is not this journal's history ---------------------------------------------------------------------

    def renew(self) -> None:
        """Take another id, and forget the former: to a later start all that was found is another journal's.

        What is loose goes through assembly again under higher numbers: a position at these must not count for it.

        Raises:
            OSError: the disk failed.
        """
        self._identity.renew()

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
        for each in self._foreign:
            yield from self._sealed.read_each(each.path, each.records)

    def drop_foreign(self) -> None:
        """Remove the segments of other journals.

        Raises:
            OSError: some are still there.
        """
        self._unsure.clear()
        while self._foreign:
            self._disk.remove(self._foreign[-1].path)
            self._foreign.pop()
        self._disk.sync_folder(self._folder)

    def close(self) -> None:
        """Put what was appended on the disk, and give the folder back; a segment that holds nothing more goes.

        Raises:
            OSError: it could not be put there.
        """
        try:
            if self._writer is not None and not self._written:
                self._drop_segment()
            if not self.is_durable:
                self.sync()
        finally:
            if self._writer is not None:
                self._seal()
            self._sealed.close()
            self._release()


def held_by(folder: Path, head: Head | None, position: JournalPosition, disk: Disk) -> int:
    """Up to which number a database at this position has the records of a segment with this head; raises OSError."""
    identity, _, *former = read_ids(folder, disk) or (0, 0)
    ids = {identity, *former}
    return position.sequence if head is not None and head.journal in ids and position.journal in ids else 0


def readings_left(folder: Path, position: JournalPosition, disk: Disk) -> int:
    """How many readings a journal that nobody has open holds beyond this position; raises OSError."""
    left = 0
    for path in paths_in(disk, folder):
        with disk.open_view(path) as view, memoryview(view) as data:
            held = held_by(folder, head_of(data), position, disk)
            for header, _, body in whole_records(view, data, 0):
                if header.sequence > held:
                    left += sum(counted(data[body : body + header.length])[1:])
    return left

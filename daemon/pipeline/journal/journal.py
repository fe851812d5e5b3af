"""The journal of one group: closed triggers on disk until the database has them.

Blocks are numbered in the order in which they closed, in ascending order and never twice, and a number that was ever
handed out is not handed out again: up to which number the database has them says which are still to be committed. Such
a position counts for the journal alone whose id it names.

Everything here blocks, and is called from one thread at a time; the event loop uses `keeper`.
"""

import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from backends.columns.filling import readings_in
from backends.folder_lock import FolderInUse
from daemon.core.outside import Lock, Outside
from daemon.core.outside.disk import Buffer
from daemon.pipeline.journal.chain import Chain, follow
from daemon.pipeline.journal.format import BadRecord, encode, group_checksum, segment_head
from daemon.pipeline.journal.identity import Identity
from daemon.pipeline.journal.segment import (
    ENDING,
    INDEX,
    NO_RECORDS,
    Damage,
    Scan,
    SegmentWriter,
    checked,
    path_of,
    paths_in,
    read,
    scan,
)
from schemas.batch import ClosedBlock, JournalPosition
from schemas.readings import Array, InstrumentGroup

DAMAGED = "damaged"
"""Folder beside the segments for what could not be read."""

LOCK = "lock"

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class JournalError(Exception):
    """The journal cannot be used; the message is one line: what is wrong, and what to do."""


class JournalFull(Exception):
    """There is no room: the limit is reached, or the disk is full. What was to be appended is not in the journal."""


@dataclass(kw_only=True)
class Amount:
    """How much waits somewhere."""

    blocks: int = 0
    triggers: int = 0
    readings: int = 0

    def change(self, triggers: int, readings: int, blocks: int) -> None:
        """Add, or take away what is negative."""
        self.triggers += triggers
        self.readings += readings
        self.blocks += blocks

    def plus(self, other: "Amount") -> "Amount":
        """Both together."""
        return Amount(
            blocks=self.blocks + other.blocks,
            triggers=self.triggers + other.triggers,
            readings=self.readings + other.readings,
        )


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A segment of another journal. journal: its id; 0 where the head is not whole."""

    path: Path
    journal: int
    amount: Amount


@dataclass(frozen=True, kw_only=True)
class JournalRecovery:
    """What was found at the start.

    amount: what the database lacks. damages: what could not be read, and is set aside in `copies`.
    loose: whole records behind a hole: what they follow, from one number to another (`hole`), is lost. foreign:
    segments of other journals. Both are left where they are; see `read_loose` and `read_foreign`.
    state: what the head of the newest segment of the history holds; with the blocks above `state_at` it is how things
    are. newest_state: what the head of the newest segment of this journal holds, history or not.
    problem: why what was found is not surely on the disk, else None; syncing tries again.
    """

    amount: Amount
    damages: tuple[Damage, ...]
    copies: tuple[Path, ...]
    loose: Amount
    hole: tuple[int, int] | None
    foreign: tuple[Foreign, ...]
    state: bytes
    state_at: int
    newest_state: bytes
    problem: str | None


@dataclass(kw_only=True, eq=False)
class _Segment:
    """A segment that is not written any more.

    records: those still to be committed; loose: those behind a hole; INDEX. writer: while syncing its file is enough to
    have it on the disk; if it is neither that nor `is_durable`, it has to be written anew.
    """

    path: Path
    head: bytes
    nbytes: int
    records: Array
    loose: Array = field(default_factory=lambda: NO_RECORDS)
    writer: SegmentWriter | None = None
    is_durable: bool = False


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
        self.nbytes = 0
        self.next = 1
        self.unreadable: list[Damage] = []
        self.outside = outside
        self._disk = outside.disk
        self._folder = folder
        self._group = group
        self._state = state
        self._identity = Identity(folder, outside)
        self.change_limits(max_bytes=max_bytes, segment_bytes=segment_bytes)
        self._sealed: list[_Segment] = []
        self._foreign: list[Scan] = []
        self._writer: SegmentWriter | None = None
        self._written: deque[tuple[int, ...]] = deque()  # as INDEX
        self._head = segment_head(group, 0)
        self._is_dirty = False  # something was appended since the last sync
        self._last = 0  # the last number that was written, or that the database has
        self._synced = 0
        self._missing: list[int] = []  # could not be read again when they had to be written anew
        self._lock: Lock | None = None

    @property
    def id(self) -> int:
        """Which journal a position belongs to; not 0 once it is open."""
        return self._identity.id

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

    def open(self, position: JournalPosition | None) -> JournalRecovery:
        """Take the folder, look through its segments, and set aside what is damaged.

        position: where the database is. If that is the position of this journal, it has the blocks up to there, and
        they go; the position of another one says nothing. None if the database could not be asked.

        Raises:
            JournalError: another process has the journal, or it holds readings of a group laid out otherwise.
            OSError: the folder cannot be used.
        """
        self._disk.make_folder(self._folder)
        # An earlier process may have made it, and ended before it was on the disk.
        self._disk.sync_folder(self._folder.parent.parent)
        self._disk.sync_folder(self._folder.parent)
        self._take_lock()
        try:
            return self._recover(position)
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

    def _recover(self, position: JournalPosition | None) -> JournalRecovery:
        self._identity.load()
        self._identity.choose()
        found = self._scan()
        damages = [damage for each in found for damage in each.damages]
        copies = [self._set_aside(damage) for damage in damages]
        own = [each for each in found if each.head is not None and each.head.journal == self.id]
        self._foreign = [each for each in found if each not in own and (each.head is not None or len(each.records))]
        chain = follow(own, self.id, position)
        self._last = chain.reach
        self._number(found, position)
        self._take_over(found, own, chain)
        return JournalRecovery(
            amount=_amount(chain.whole),
            damages=tuple(damages),
            copies=tuple(copies),
            loose=_amount(chain.loose),
            hole=chain.hole,
            foreign=tuple(map(_foreign, self._foreign)),
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

    def _take_over(self, found: Sequence[Scan], own: Sequence[Scan], chain: Chain) -> None:
        kept = {each.path for each in self._foreign}
        for each, whole, loose in zip(own, chain.whole, chain.loose, strict=True):
            if len(whole) or len(loose):
                kept.add(each.path)
                self.nbytes += each.nbytes
                head = self._disk.read(each.path, 0, each.head.nbytes if each.head else 0)
                self._sealed.append(_Segment(path=each.path, head=head, nbytes=each.nbytes, records=whole, loose=loose))
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
            segment.is_durable = int(segment.records["sequence"].max(initial=0)) <= synced
        try:
            self.sync()
        except OSError as error:
            return f"what was found in the journal cannot be put on the disk: {error}"
        return None

    def _set_aside(self, damage: Damage) -> Path:
        folder = self._folder / DAMAGED
        self._disk.make_folder(folder)
        target = folder / f"{damage.path.stem}-{damage.start}.bin"
        self._disk.replace(target, self._disk.read(damage.path, damage.start, damage.end))
        return target

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
        size = sum(_size(record) for record in records)
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
            follows, end = self._last, start + _size(record)
            self._written.append((number, follows, start, end, block.triggers, readings_in(block)))
            self._last, start = number, end
        self.nbytes += size
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
            self._writer = SegmentWriter(self._disk, path_of(self._folder, first), self._head)
            self.nbytes += self._writer.nbytes
        return self._writer

    def _seal(self) -> _Segment:
        """Let the segment that is written grow no more; it is on the disk as soon as its file is synced."""
        assert self._writer is not None
        segment = _Segment(
            path=self._writer.path,
            head=self._head,
            nbytes=self._writer.nbytes,
            records=np.array(self._written, INDEX),
            writer=self._writer,
            is_durable=not self._is_dirty,
        )
        self._sealed.append(segment)
        self._writer, self._written, self._is_dirty = None, deque(), False
        return segment

    def _end_segment(self) -> None:
        """Seal the segment that is written after a failure: what of it was not synced has to be written anew."""
        if self._written:
            self._close_file(self._seal())
        elif self._writer is not None:
            self._drop_segment()

    def _close_file(self, segment: _Segment) -> None:
        writer, segment.writer = segment.writer, None
        if writer is not None:
            writer.close()

    def _drop_segment(self) -> None:
        assert self._writer is not None
        writer, self._writer, self._is_dirty = self._writer, None, False
        self.nbytes -= writer.nbytes
        writer.close()
        self._disk.remove(writer.path)

    @property
    def is_durable(self) -> bool:
        """Whether all that is to be committed is on the disk."""
        return not self._is_dirty and all(segment.is_durable for segment in self._sealed if len(segment.records))

    def sync(self) -> int:
        """Wait until all that was appended is on the disk; return up to which number it is.

        Raises:
            OSError: it may not be; it is tried again with the next call, by writing it anew.
        """
        for segment in self._sealed:
            if len(segment.records) and not segment.is_durable:
                self._sync_sealed(segment)
        if self._writer is not None and self._is_dirty:
            try:
                self._writer.sync()
            except OSError:
                self._end_segment()
                raise
            self._is_dirty = False
        self._synced = min([self.next - 1, *(number - 1 for number in self._missing)])
        return self._synced

    def _sync_sealed(self, segment: _Segment) -> None:
        if segment.writer is None:
            self._rewrite(segment)
        else:
            try:
                segment.writer.sync()
            finally:
                self._close_file(segment)
        segment.is_durable = True

    def _rewrite(self, segment: _Segment) -> None:
        """Write a segment anew, with what is still wanted of it, from what can be read."""
        data = memoryview(self._disk.read(segment.path, 0, segment.nbytes))
        parts: list[Buffer] = [segment.head]
        records = self._moved(segment, segment.records, data, parts)
        lost = np.setdiff1d(segment.records["sequence"], records["sequence"])
        loose = self._moved(segment, segment.loose, data, parts)
        self._disk.replace(segment.path, b"".join(parts))
        self._close_file(segment)
        self._missing += lost.tolist()
        segment.records, segment.loose = records, loose
        self.nbytes += _size(parts) - segment.nbytes
        segment.nbytes = _size(parts)

    def _moved(self, segment: _Segment, records: Array, data: memoryview, parts: list[Buffer]) -> Array:
        """Put records behind the other parts; return those that are whole, with where they are then."""
        at, moved = _size(parts), []
        for number, follows, start, end, *rest in records.tolist():
            if not _is_whole(data[start:end]):
                self._note_damage(segment.path, start, end)
                continue
            parts.append(data[start:end])
            moved.append((number, follows, at, at + end - start, *rest))
            at += end - start
        return np.array(moved, INDEX)

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
                block = self._read(path, start, end)
                if block is not None:
                    found.append((sequence, block))
        return found

    def read_last(self, triggers: int) -> list[ClosedBlock]:
        """Read the last blocks, as many as hold so many triggers, in order; raises OSError as `read`."""
        wanted: list[tuple[Path, list[int]]] = []
        left = triggers
        for path, records in reversed(list(self._in_order())):
            for record in records[::-1].tolist():
                if left <= 0:
                    break
                left -= record[4]
                wanted.append((path, record))
        blocks = (self._read(path, start, end) for path, (_, _, start, end, *_) in reversed(wanted))
        return [block for block in blocks if block is not None]

    def _read(self, path: Path, start: int, end: int) -> ClosedBlock | None:
        try:
            return read(self._disk, path, start, end, self._group)
        except BadRecord:
            self._note_damage(path, start, end)
            return None

    def _note_damage(self, path: Path, start: int, end: int) -> None:
        damage = Damage(path=path, start=start, end=end, is_torn=False)
        self._set_aside(damage)
        self.unreadable.append(damage)

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
        self._missing = [number for number in self._missing if number > position]
        for segment in list(self._sealed):
            segment.records = segment.records[segment.records["sequence"] > position]
            if len(segment.records):
                break
            if not len(segment.loose):
                self._remove(segment)
        while self._written and self._written[0][0] <= position:
            self._written.popleft()
        if self._writer is not None and not self._written:
            self._is_dirty = False
            if self._writer.nbytes >= self._segment_bytes:
                self._drop_segment()

    def _remove(self, segment: _Segment) -> None:
        # What the database has needs not to reach the disk here, and once it has no name it does not.
        self._disk.remove(segment.path)
        self._sealed.remove(segment)
        self.nbytes -= segment.nbytes
        self._close_file(segment)

    # --- what is not this journal's history ---------------------------------------------------------------------

    def loosen(self) -> None:
        """Take all that was found for loose: it is not certain that it leads on from where the database is."""
        for segment in self._sealed:
            segment.loose = np.concatenate([segment.records, segment.loose])
            segment.records = NO_RECORDS

    def read_loose(self) -> Iterator[ClosedBlock]:
        """Read the blocks behind a hole, in order; raises OSError."""
        for segment in list(self._sealed):
            yield from self._read_each(segment.path, segment.loose)

    def drop_loose(self) -> None:
        """Let go of the blocks behind a hole.

        Raises:
            OSError: they are still there.
        """
        for segment in list(self._sealed):
            if len(segment.loose) and len(segment.records):
                segment.loose = NO_RECORDS
                self._rewrite(segment)
                segment.is_durable = True
            elif len(segment.loose):
                self._remove(segment)
        self._disk.sync_folder(self._folder)

    def read_foreign(self) -> Iterator[ClosedBlock]:
        """Read the blocks of other journals, each journal's in order; raises OSError."""
        for each in sorted(self._foreign, key=_journal_of):
            yield from self._read_each(each.path, each.records)

    def drop_foreign(self) -> None:
        """Remove the segments of other journals.

        Raises:
            OSError: some are still there.
        """
        while self._foreign:
            self._disk.remove(self._foreign[-1].path)
            self._foreign.pop()
        self._disk.sync_folder(self._folder)

    def _read_each(self, path: Path, records: Array) -> Iterator[ClosedBlock]:
        for _, _, start, end, *_ in records.tolist():
            block = self._read(path, start, end)
            if block is not None:
                yield block

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
                self._close_file(self._seal())
            for segment in self._sealed:
                self._close_file(segment)
            self._release()


def _is_whole(data: memoryview) -> bool:
    try:
        checked(data)
    except BadRecord:
        return False
    return True


def _size(buffers: Sequence[Buffer]) -> int:
    return sum(len(buffer) for buffer in buffers)


def _amount(parts: Sequence[Array]) -> Amount:
    return Amount(
        blocks=sum(len(records) for records in parts),
        triggers=sum(int(records["triggers"].sum()) for records in parts),
        readings=sum(int(records["readings"].sum()) for records in parts),
    )


def _journal_of(found: Scan) -> int:
    return 0 if found.head is None else found.head.journal


def _foreign(found: Scan) -> Foreign:
    return Foreign(path=found.path, journal=_journal_of(found), amount=_amount([found.records]))

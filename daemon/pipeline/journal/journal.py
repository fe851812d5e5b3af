"""The journal of one group: closed triggers on disk until the database has them.

Blocks are numbered in the order in which they closed, in ascending order and never twice, and a number that was ever
handed out is not handed out again: up to which number the database has them says which are still to be committed.

Everything here blocks, and is called from one thread at a time; the event loop uses `thread`.
"""

import errno
import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backends.columns.filling import readings_in
from backends.folder_lock import FolderInUse, FolderLock
from daemon.pipeline.journal.format import BadRecord, Buffer, encode, group_checksum, segment_head
from daemon.pipeline.journal.segment import ENDING, INDEX, Damage, Scan, SegmentWriter, read, scan, sync_folder
from schemas.batch import ClosedBlock
from schemas.readings import Array, InstrumentGroup

DAMAGED = "damaged"
"""Folder beside the segments for what could not be read."""

OFF_LIMITS = 2**20
"""Numbers left out after a start. A block may have been committed whose record was lost with the power: its number is
in the database and not here. More blocks than this never wait at once."""

LOCK = "lock"


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


@dataclass(frozen=True, kw_only=True)
class JournalRecovery:
    """What was found at the start.

    amount: what the database lacks. damages: what could not be read, and is set aside in `copies`.
    """

    amount: Amount
    damages: tuple[Damage, ...]
    copies: tuple[Path, ...]


@dataclass(kw_only=True)
class _Sealed:
    """A segment that is not written any more, with its records that are still to be committed; INDEX.

    unsynced: its file, while that may not be on the disk.
    """

    path: Path
    nbytes: int
    records: Array
    unsynced: SegmentWriter | None = None

    def sync(self) -> None:
        """Wait until it is on the disk; raises OSError when it may not be."""
        if self.unsynced is not None:
            self.unsynced.sync()
            self.let_go()

    def let_go(self) -> None:
        """Close its file."""
        if self.unsynced is not None:
            self.unsynced.close()
            self.unsynced = None


class Journal:
    """Append, sync, read, trim. Use `open` first.

    Args:
        folder: of this group alone; made if it is not there.
        max_bytes: what all segments together may hold.
        segment_bytes: a segment is sealed when it has so many.
    """

    def __init__(self, folder: Path, group: InstrumentGroup, *, max_bytes: int, segment_bytes: int) -> None:
        self.nbytes = 0
        self.next = 1
        self.unreadable: list[Damage] = []
        self._folder = folder
        self._group = group
        self.change_limits(max_bytes=max_bytes, segment_bytes=segment_bytes)
        self._sealed: deque[_Sealed] = deque()
        self._writer: SegmentWriter | None = None
        self._written: deque[tuple[int, ...]] = deque()  # as INDEX
        self._lock: FolderLock | None = None

    @property
    def room(self) -> int:
        """Bytes that may still be appended; a new segment begins with its head."""
        return self._max_bytes - self.nbytes - len(segment_head(self._group))

    def free_room(self) -> int:
        """Bytes that may be appended before the limit or the end of the disk's free space; 0 if that is unknown."""
        try:
            disk = os.statvfs(self._folder)
        except OSError:
            return 0
        return max(0, min(self.room, disk.f_bavail * disk.f_frsize))

    def change_limits(self, *, max_bytes: int, segment_bytes: int) -> None:
        """Let it hold so much from now on; may be called from any thread, and what it holds already stays."""
        self._max_bytes = max_bytes
        self._segment_bytes = min(segment_bytes, max(1, max_bytes // 4))

    def open(self, position: int) -> JournalRecovery:
        """Take the folder, look through its segments, and set aside what is damaged.

        position: up to which number the database has the blocks.

        Raises:
            JournalError: another process has the journal, or it holds readings of a group laid out otherwise.
            OSError: the folder cannot be used.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        try:
            return self._recover(position)
        except BaseException:
            self.close()
            raise

    def _take_lock(self) -> None:
        try:
            self._lock = FolderLock(self._folder / LOCK)
        except FolderInUse:
            raise JournalError(
                f"{self._folder} is used by another daemon; stop it, or set another `state_dir`"
            ) from None

    def _recover(self, position: int) -> JournalRecovery:
        damages: list[Damage] = []
        copies: list[Path] = []
        last = position
        for path in sorted(self._folder.glob(f"*{ENDING}")):
            found = scan(path)
            self._check_group(found)
            last = max(last, int(found.records["sequence"].max(initial=0)))
            for damage in found.damages:
                damages.append(damage)
                copies.append(self._set_aside(damage))
            waiting = found.records[found.records["sequence"] > position]
            if len(waiting):
                self._sealed.append(_Sealed(path=path, nbytes=found.nbytes, records=waiting))
                self.nbytes += found.nbytes
            else:
                path.unlink()
        sync_folder(self._folder)
        self.next = last + OFF_LIMITS
        waiting_in = [segment.records for segment in self._sealed]
        return JournalRecovery(
            amount=Amount(
                blocks=sum(len(records) for records in waiting_in),
                triggers=sum(int(records["triggers"].sum()) for records in waiting_in),
                readings=sum(int(records["readings"].sum()) for records in waiting_in),
            ),
            damages=tuple(damages),
            copies=tuple(copies),
        )

    def _check_group(self, found: Scan) -> None:
        if found.groups - {group_checksum(self._group)}:
            raise JournalError(
                f"{found.path} holds readings of group {self._group.name!r} with other instruments or channels than"
                " the configuration has; run the daemon with the old configuration until all is committed, or move the"
                " file away"
            )

    def _set_aside(self, damage: Damage) -> Path:
        folder = self._folder / DAMAGED
        folder.mkdir(exist_ok=True)
        target = folder / f"{damage.path.stem}-{damage.start}.bin"
        with damage.path.open("rb") as source, target.open("wb") as copy:
            source.seek(damage.start)
            copy.write(source.read(damage.end - damage.start))
            copy.flush()
            os.fsync(copy.fileno())
        sync_folder(folder)
        return target

    # --- writing ------------------------------------------------------------------------------------------------

    def append(self, blocks: Sequence[ClosedBlock], first: int | None = None) -> int:
        """Append blocks, all of them or none; they get the numbers from `first` on. Return the last number.

        first: `next`, if it is not given; a higher one leaves numbers out.

        They survive the end of this process, and after `sync` that of the machine.

        Raises:
            JournalFull: there is no room.
            OSError: the disk failed.
        """
        first = self.next if first is None else first
        assert first >= self.next, "a number is never used twice"
        records = [(first + k, encode(first + k, block, self._group)) for k, block in enumerate(blocks)]
        size = sum(_size(buffers) for _, buffers in records)
        if size > self.room:
            raise JournalFull(f"{self.nbytes / 2**20:.0f} of {self._max_bytes / 2**20:.0f} MiB are in use")
        try:
            writer = self._writer_for(size, first)
            start = writer.nbytes
            writer.append(records)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                self._end_segment()
                raise JournalFull(f"the disk of {self._folder} is full") from error
            raise
        for (sequence, buffers), block in zip(records, blocks, strict=True):
            end = start + _size(buffers)
            self._written.append((sequence, start, end, block.triggers, readings_in(block)))
            start = end
        self.nbytes += size
        self.next = first + len(blocks)
        return self.next - 1

    def _writer_for(self, size: int, first: int) -> SegmentWriter:
        if self._writer is not None and self._writer.nbytes + size > self._segment_bytes and self._written:
            self._seal()
        if self._writer is None:
            self._writer = SegmentWriter(self._folder, first, self._group)
            self.nbytes += self._writer.nbytes
        return self._writer

    def _seal(self) -> None:
        assert self._writer is not None
        writer, records = self._writer, np.array(self._written, INDEX)
        self._sealed.append(_Sealed(path=writer.path, nbytes=writer.nbytes, records=records, unsynced=writer))
        self._writer, self._written = None, deque()

    def _end_segment(self) -> None:
        """Let the segment being written grow no more: a full disk has room again only when it can go."""
        if self._written:
            self._seal()
        elif self._writer is not None:
            self._drop_segment()

    def _drop_segment(self) -> None:
        assert self._writer is not None
        writer, self._writer = self._writer, None
        writer.close()
        writer.path.unlink()
        self.nbytes -= writer.nbytes

    def sync(self) -> int:
        """Wait until all that was appended is on the disk; return its last number.

        Raises:
            OSError: it may not be; after that nothing is known of what was appended since the last sync.
        """
        last = self.next - 1
        for segment in self._sealed:
            segment.sync()
        if self._writer is not None:
            self._writer.sync()
        return last

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
            for sequence, start, end, *_ in records[records["sequence"] > after].tolist():
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
                left -= record[3]
                wanted.append((path, record))
        blocks = (self._read(path, start, end) for path, (_, start, end, *_) in reversed(wanted))
        return [block for block in blocks if block is not None]

    def _read(self, path: Path, start: int, end: int) -> ClosedBlock | None:
        try:
            return read(path, start, end, self._group)
        except BadRecord:
            damage = Damage(path=path, start=start, end=end, is_torn=False)
            self._set_aside(damage)
            self.unreadable.append(damage)
            return None

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
        while self._sealed:
            segment = self._sealed[0]
            segment.records = segment.records[segment.records["sequence"] > position]
            if len(segment.records):
                return
            # What the database has needs not to reach the disk here, and once it has no name it does not.
            segment.let_go()
            segment.path.unlink()
            self.nbytes -= segment.nbytes
            self._sealed.popleft()
        while self._written and self._written[0][0] <= position:
            self._written.popleft()
        if self._writer is not None and not self._written and self._writer.nbytes >= self._segment_bytes:
            self._drop_segment()

    def close(self) -> None:
        """Put what was appended on the disk, and give the folder back; a segment that holds nothing more goes.

        Raises:
            OSError: it could not be put there.
        """
        try:
            for segment in self._sealed:
                segment.sync()
            if self._writer is not None:
                writer, self._writer = self._writer, None
                try:
                    if self._written:
                        writer.sync()
                    else:
                        writer.path.unlink()
                finally:
                    writer.close()
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None


def _size(buffers: Sequence[Buffer]) -> int:
    return sum(len(buffer) for buffer in buffers)

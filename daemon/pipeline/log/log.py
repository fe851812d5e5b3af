"""The log on the disk: readings from when they came until the database has them for good.

Records are numbered from the first that the folder holds, and each carries the sessions and numbers of its readings:
what was settled before a crash is known by these, so that nothing has to be marked in the log itself. Nothing of it is
written anew: what an earlier process may not have synced was acknowledged to nobody.

Everything here blocks, and is called from one thread at a time; the event loop uses `keeper`.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from daemon.core.outside import Disk, Outside
from daemon.core.outside.disk import Contents
from daemon.pipeline.files.acknowledged import NOWHERE, read_acknowledged
from daemon.pipeline.files.deferred import Deferred
from daemon.pipeline.files.errors import FULL, LogError, LogFull
from daemon.pipeline.files.format import group_checksum, segment_head
from daemon.pipeline.files.identity import Identity
from daemon.pipeline.files.segment import (
    Damage,
    SegmentWriter,
    copy_of,
    head_of,
    make_folder,
    path_of,
    paths_in,
    set_aside,
    whole_records,
)
from daemon.pipeline.log.format import RECORD_MAGIC, Received, decode, encode, runs_of
from schemas.readings import Array, InstrumentGroup

ENDING = ".received"

INTAKE = "intake"
"""Folder in the state folder, beside `dead-letters`."""

SEGMENT_S = 5.0
"""A segment takes no more after this time: it goes as a whole, when all in it is settled."""

ELSEWHERE = "elsewhere"
"""File in the folder that says up to which segment another daemon may have taken for lost what the log has."""


@dataclass(kw_only=True)
class _Segment:
    """first: number of its first record; what of an earlier segment has that number, or a higher one, is in this, too.

    last: number of its last record. synced: up to which number it is on the disk, as far as this process knows.
    """

    path: Path
    first: int
    last: int
    synced: int
    nbytes: int
    start: int  # offset of the first record


@dataclass(frozen=True, kw_only=True)
class LogFound:
    """What was found at the start. sessions: whose readings it holds. damaged: copies of what cannot be read.

    newest_ns: when the last of it came, UTC; 0 where it holds nothing.
    doubtful_upto: what of records up to this number counts as settled may have been taken for lost; see `doubt`.
    """

    sessions: frozenset[int]
    readings: int
    damaged: tuple[Path, ...]
    newest_ns: int = 0
    doubtful_upto: int = 0


class Log:
    """Append, sync, read once, trim. Use `open` first.

    noted: what the database acknowledged last, as an earlier process noted it.

    Args:
        folder: of this group alone; made if it is not there.
        max_bytes: what all segments together may hold.
        segment_bytes: a segment takes no more when it has so many.
    """

    def __init__(
        self, folder: Path, group: InstrumentGroup, outside: Outside, *, max_bytes: int, segment_bytes: int
    ) -> None:
        self.nbytes = 0
        self.next = 1
        self.outside = outside
        self._disk = outside.disk
        self.folder = self._folder = folder
        self._identity = Identity(folder, outside)
        self.noted = NOWHERE
        self._deferred = Deferred(folder)
        self._group = group
        self._segments: list[_Segment] = []
        self._serial = 1
        self._newest_ns = 0  # when the last of what was found came
        self._writer: SegmentWriter | None = None
        self._begun_ns = 0
        self._is_dirty = False
        self._has_removed = False  # segments, whose names may come back
        self._doubtful = 0  # the serial of the last segment that is in doubt
        self._read = 0  # the last number that was read
        self._at = 0  # where reading goes on, in the first segment that is not read to its end
        self._reading: Path | None = None
        self.change_limits(max_bytes=max_bytes, segment_bytes=segment_bytes)

    @property
    def id(self) -> int:
        """The id of the positions that this process leaves in the database."""
        return self._identity.id

    @property
    def former(self) -> frozenset[int]:
        """The ids of earlier processes with this folder: what is at a position of theirs was written from here."""
        return frozenset(self._identity.former)

    @property
    def has_deferred(self) -> bool:
        """Tell whether the disk has not taken all of the start yet, as the id: the next one finds none of it."""
        return bool(self._deferred)

    @property
    def room(self) -> int:
        """Bytes that may still be appended."""
        return self._max_bytes - self.nbytes

    def free_room(self) -> int:
        """Bytes that may still be appended, and that are free on the disk."""
        try:
            return max(0, min(self.room, self._disk.free(self._folder)))
        except OSError:
            return max(0, self.room)

    def change_limits(self, *, max_bytes: int, segment_bytes: int) -> None:
        """Let it hold so much from now on; may be called from any thread."""
        self._max_bytes = max_bytes
        self._segment_bytes = min(segment_bytes, max(1, max_bytes // 4))

    # --- opening ------------------------------------------------------------------------------------------------

    def open(self) -> LogFound:
        """Look through the folder.

        Raises:
            LogError: it holds readings of a group laid out otherwise.
            OSError: the folder cannot be read.
        """
        self._deferred.do(partial(make_folder, self._disk, self._folder))
        self._identity.load()
        self._identity.succeed(())
        self._deferred.do(partial(self._identity.take, 1))
        self.noted = read_acknowledged(self._folder, self._disk)
        sessions: set[int] = set()
        readings, damaged = 0, list[Path]()
        for path in paths_in(self._disk, self._folder, ENDING):
            found, amount, copies = self._scan(path)
            sessions |= found
            readings += amount
            damaged += copies
            self._serial = _serial(path) + 1
        self.next = max((segment.last + 1 for segment in self._segments), default=1)
        self._read = min((segment.first for segment in self._segments), default=1) - 1
        # What an earlier process removed is not to come back: its sessions may be forgotten from now on.
        self._deferred.do(partial(self._disk.sync_folder, self._folder))
        return LogFound(
            sessions=frozenset(sessions),
            readings=readings,
            damaged=tuple(damaged),
            newest_ns=self._newest_ns,
            doubtful_upto=self._read_doubtful(),
        )

    def _read_doubtful(self) -> int:
        self._doubtful = min(_doubtful_in(self._folder, self._disk), max(1, self._serial - 1))
        return max((segment.last for segment in self._segments if _serial(segment.path) <= self._doubtful), default=0)

    def _scan(self, path: Path) -> tuple[set[int], int, list[Path]]:
        sessions: set[int] = set()
        numbers, readings, copies = list[int](), 0, list[Path]()
        data = Contents(self._disk, path)
        head = head_of(data)
        start = good_until = 0 if head is None else head.nbytes
        for header, at, body in whole_records(data, start, RECORD_MAGIC):
            runs, count, received_ns = runs_of(data[body : body + header.length])
            if header.group_checksum != group_checksum(self._group) and count:
                raise LogError(
                    f"{path} holds readings of group {self._group.name!r} with other instruments or channels than"
                    " the configuration has; run the daemon with those until all is committed (where the database"
                    " refuses them, with another `schema`), or move the file away"
                )
            if at > good_until:
                damage = Damage(path=path, start=good_until, end=at, is_torn=False)
                self._deferred.do(partial(set_aside, self._disk, self._folder, damage), path)
                copies.append(copy_of(self._folder, damage))
            good_until = body + header.length
            sessions.update(runs["session"].tolist())
            readings += count
            self._newest_ns = received_ns  # of the last: the clock may have been wrong before
            numbers.append(header.sequence)
        nbytes = len(data)
        if not numbers:
            self._deferred.do(partial(self._disk.remove, path))
            return sessions, 0, copies
        first, last = numbers[0] if head is None else head.follows + 1, max(numbers)
        self._segments.append(_Segment(path=path, first=first, last=last, synced=last, nbytes=nbytes, start=start))
        self.nbytes += nbytes
        return sessions, readings, copies

    # --- writing ------------------------------------------------------------------------------------------------

    def append(self, received: Sequence[Received]) -> None:
        """Append records, all of them or none. They are on the disk after `sync`.

        After a failure, here or of `sync`, all that was appended since the last sync has to be appended again.

        Raises:
            LogFull: there is no room.
            OSError: the disk failed.
        """
        records = [encode(each, self._group) for each in received]
        size = sum(len(buffer) for record in records for buffer in record)
        if size > self.room:
            raise LogFull(f"{self.nbytes / 2**20:.0f} of {self._max_bytes / 2**20:.0f} MiB are in use")
        try:
            self._deferred.settle()
            writer = self._writer_for(size, received[0].number)
            writer.append(records)
        except OSError as error:
            self._fail_segment()
            if error.errno in FULL:
                raise LogFull(f"the disk of {self._folder} is full") from error
            raise
        self._is_dirty = True
        segment = self._segments[-1]
        self.nbytes += writer.nbytes - segment.nbytes
        segment.last, segment.nbytes = received[-1].number, writer.nbytes
        self.next = received[-1].number + 1

    def probe(self) -> None:
        """Begin a segment, if none is begun: the disk may take something again.

        Raises:
            LogFull: there is no room.
            OSError: the disk failed.
        """
        if self.room <= 0:
            raise LogFull(f"{self.nbytes / 2**20:.0f} of {self._max_bytes / 2**20:.0f} MiB are in use")
        try:
            self._deferred.settle()
            self._writer_for(0, self.next)
        except OSError:
            self._fail_segment()
            raise

    def _writer_for(self, size: int, number: int) -> SegmentWriter:
        now_ns = self.outside.clock.now().monotonic_ns
        if self._writer is not None and not self._is_dirty:
            is_old = now_ns - self._begun_ns >= SEGMENT_S * 1e9
            if is_old or self._writer.nbytes + size > self._segment_bytes:
                self._end_segment()
        if self._writer is None:
            head = segment_head(self._group, 0, number - 1)
            path = path_of(self._folder, self._serial, ENDING)
            self._serial += 1
            self._writer, self._begun_ns = SegmentWriter(self._disk, path, head), now_ns
            before, start = number - 1, len(head)
            self._segments.append(
                _Segment(path=path, first=number, last=before, synced=before, nbytes=start, start=start)
            )
            self.nbytes += start
        return self._writer

    def _fail_segment(self) -> None:
        """Let the segment that is written grow no more after a failure: what of it is not synced comes again.

        Where nothing of it is, it goes: a disk that fails for hours is not filled with copies.
        """
        if self._writer is None:
            return
        self._end_segment()
        segment = self._segments[-1]
        segment.last = segment.synced
        self.next = segment.last + 1
        if segment.last < segment.first:
            with contextlib.suppress(OSError):  # what cannot be removed now is trimmed later
                self._disk.remove(segment.path)
                self.nbytes -= self._segments.pop().nbytes

    def _end_segment(self) -> None:
        writer, self._writer, self._is_dirty = self._writer, None, False
        if writer is not None:
            writer.close()

    def sync(self) -> None:
        """Wait until all that was appended is on the disk.

        Raises:
            OSError: it may not be.
        """
        if self._writer is None or not self._is_dirty:
            return
        try:
            self._writer.sync()
        except OSError:
            self._fail_segment()
            raise
        self._is_dirty = False
        self._segments[-1].synced = self._segments[-1].last

    def trim(self, number: int) -> int:
        """Nobody needs the records up to this number: let go of segments that hold nothing else.

        Returns up to which number the records are gone from the disk, and do not come back.

        Raises:
            OSError: a segment cannot be removed.
        """
        while self._segments and self._segments[0].last <= number:
            segment = self._segments[0]
            self._deferred.release(segment.path)
            if len(self._segments) == 1:
                self._end_segment()
            self._disk.remove(segment.path)
            del self._segments[0]
            self.nbytes -= segment.nbytes
            self._has_removed = True
        if self._doubtful and not (self._segments and _serial(self._segments[0].path) <= self._doubtful):
            self._disk.remove(self._folder / ELSEWHERE)
            self._doubtful, self._has_removed = 0, True
        if self._has_removed:
            self._disk.sync_folder(self._folder)
            self._has_removed = False
        # Where there is none, those up to this number that are not written yet never are.
        return self._segments[0].first - 1 if self._segments else max(number, self.next - 1)

    def doubt(self) -> None:
        """Another daemon may have taken for lost, and so for settled, what is in the log now.

        That is true after a restart as well, when this daemon was the last to write to the database.

        Raises:
            OSError: the disk failed.
        """
        if self._segments:
            serial = _serial(self._segments[-1].path)
            self._disk.replace(self._folder / ELSEWHERE, b"%d" % serial)
            self._doubtful = serial

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, most_bytes: int) -> list[Received]:
        """Read the next records, each once: about so many bytes of them; none when all that was appended was read.

        Raises:
            OSError: the disk failed.
        """
        found: list[Received] = []
        for k, segment in enumerate(self._segments):
            limit = min([segment.last + 1, *(later.first for later in self._segments[k + 1 :])])
            if limit <= self._read + 1:
                continue
            for received in self._records(segment, limit):
                found.append(received)
                self._read = received.number
                most_bytes -= received.nbytes
                if most_bytes <= 0:
                    return found
            self._read = max(self._read, limit - 1)
        return found

    def read_again(self, *, after: int = 0) -> None:
        """Let `read` begin again with the first record that is there, and has a higher number."""
        self._read = max(after, self._segments[0].first - 1 if self._segments else self.next - 1)
        self._reading, self._at = None, 0

    def _records(self, segment: _Segment, limit: int) -> Iterator[Received]:
        """Its records from where reading goes on, that are in no later segment."""
        if self._reading != segment.path:
            self._reading, self._at = segment.path, segment.start
        data = Contents(self._disk, segment.path, segment.nbytes)
        for header, _, body in whole_records(data, self._at, RECORD_MAGIC):
            self._at = body + header.length
            if self._read < header.sequence < limit:
                yield decode(header.sequence, bytes(data[body : self._at]), self._group)

    def close(self) -> None:
        """Let go of the file; what was appended and not synced may be lost with the machine."""
        self._end_segment()


def _serial(path: Path) -> int:
    return int(path.name[: -len(ENDING)])


def folder_of(state_dir: Path, group: str) -> Path:
    """The folder of a group's log."""
    return state_dir / INTAKE / group


def readings_in(folder: Path, disk: Disk, settled: Mapping[int, int] | None = None) -> int:
    """How many readings a folder holds, of whatever group, without those that are settled.

    settled: by session, up to which number. It says nothing of segments that may have been taken for lost; see `doubt`.

    Raises:
        OSError: it cannot be read.
    """
    doubtful = _doubtful_in(folder, disk) if settled else 0
    paths = paths_in(disk, folder, ENDING)
    return sum(_readings_in(path, {} if _serial(path) <= doubtful else settled or {}, disk) for path in paths)


def _readings_in(path: Path, settled: Mapping[int, int], disk: Disk) -> int:
    data = Contents(disk, path)
    records = whole_records(data, 0, RECORD_MAGIC)
    return sum(_beyond(runs_of(data[body : body + header.length])[0], settled) for header, _, body in records)


def _beyond(runs: Array, settled: Mapping[int, int]) -> int:
    """How many readings of runs lie beyond what is settled; only those of readings have a count."""
    found = ((count, first + count - settled.get(session, 0)) for session, first, count, _ in runs.tolist())
    return sum(max(0, min(count, beyond)) for count, beyond in found)


def _doubtful_in(folder: Path, disk: Disk) -> int:
    """The serial of the last segment that is in doubt; 0 where none is, above all others where it cannot be read."""
    if ELSEWHERE not in disk.names(folder):
        return 0
    serial = disk.read(folder / ELSEWHERE, 0, 20)
    return int(serial) if serial.isdigit() else 2**62

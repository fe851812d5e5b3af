"""A disk in memory: what a host keeps, what of it survives a power cut, and how its calls fail.

`Drive` is the hardware with its file system: it outlives every daemon. `SimulatedDisk` is what one life of a daemon
sees of it (`daemon.core.outside.Disk`); after the life's end every call raises Killed.
"""

import contextlib
import errno
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from backends.files import FolderInUse
from tests.simulation.loop import Life

SECTOR = 512

Buffer = bytes | memoryview


@dataclass(eq=False)
class Inode:
    """A file. data: as it is read now. durable: as it is on the medium.

    dirty: sectors that were written and not synced since. unreadable: those that the disk reads no more, which are read
    as zeros (`daemon.core.outside.Disk.read`), until it puts what is written there elsewhere. doubtful: sectors that a
    failed sync has marked clean: no later sync writes them.
    """

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    dirty: set[int] = field(default_factory=set)
    unreadable: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)
    _marks: set[int] | None = None

    def read(self) -> bytes:
        found = bytearray(self.data)
        for sector in self.unreadable:
            start = sector * SECTOR
            found[start : start + SECTOR] = bytes(len(found[start : start + SECTOR]))
        return bytes(found)

    def durable_marks(self, is_mark: Callable[[int], bool]) -> set[int]:
        """The 64-bit words on the medium, at multiples of 8 bytes, that are marks of readings."""
        if self._marks is None:
            self._marks = _marks_in(self.durable, is_mark)
        return self._marks

    def write(self, at: int, data: bytes) -> None:
        self.data[at : at + len(data)] = data
        touched = range(at // SECTOR, -(-(at + len(data)) // SECTOR))
        self.dirty.update(touched)
        self.doubtful.difference_update(touched)
        self.unreadable.difference_update(touched)

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.dirty = {sector for sector in self.dirty if sector * SECTOR < size}
        self.doubtful = {sector for sector in self.doubtful if sector * SECTOR < size}
        if size < len(self.durable):
            self.dirty.add(size // SECTOR)

    def sync(self) -> None:
        for sector in sorted(self.dirty):
            self._persist(sector, SECTOR)
        self.dirty.clear()
        if len(self.durable) > len(self.data) and not self.doubtful:
            self._marks = None
            del self.durable[len(self.data) :]

    def fail_sync(self, written: float, rng: random.Random) -> None:
        """A part of what is dirty reaches the medium, and all of it is clean from now on."""
        for sector in sorted(self.dirty):
            if rng.random() < written:
                self._persist(sector, SECTOR)
            else:
                self.doubtful.add(sector)
        self.dirty.clear()

    def _persist(self, sector: int, nbytes: int) -> None:
        self._marks = None
        start = sector * SECTOR
        piece = self.data[start : start + nbytes]
        if len(self.durable) < start:
            self.durable.extend(bytes(start - len(self.durable)))
        self.durable[start : start + len(piece)] = piece

    def cut_power(self, kept: float, torn: float, rng: random.Random) -> None:
        """Of each sector that is not synced keep all, a part, or what was there before."""
        for sector in sorted(self.dirty | self.doubtful):
            fate = rng.random()
            if fate < kept:
                self._persist(sector, SECTOR)
            elif fate < kept + torn:
                self._persist(sector, rng.randrange(1, SECTOR))
        self.dirty.clear()
        self.doubtful.clear()
        self.data = bytearray(self.durable)


@dataclass
class Fault:
    """Calls that fail.

    call: `sync`, `append`, `create`, `sync_folder`, `replace`, `remove`, `read`, `make_folder`, or `any`.
    left: how many of them still fail. skip: how many succeed before. error: errno. short: the part of the bytes of an
    append that is written all the same. where: these are the calls for paths that end so; all where it is empty.
    """

    call: str
    left: int
    skip: int = 0
    error: int = errno.EIO
    short: float = 0.0
    where: str = ""


@dataclass(frozen=True)
class Change:
    """A change of a folder's names that is not synced: this name is for this file from then on, or for none."""

    name: PurePosixPath
    inode: Inode | None


class Drive:
    """The disk of one host.

    capacity: bytes. kept, torn: the parts of what is not synced that a power cut leaves whole, or in part. delay_s: how
    long it takes for its work at most.
    """

    def __init__(self, *, capacity: int = 1 << 40, rng: random.Random) -> None:
        self.capacity = capacity
        self.faults: list[Fault] = []
        self.kept, self.torn = 0.4, 0.2
        self.delay_s = 0.0
        self.idle_syncs_most = self._idle_syncs = 0
        self._rng = rng
        self._names: dict[PurePosixPath, Inode] = {}
        self._durable: dict[PurePosixPath, Inode] = {}
        self._folders: set[PurePosixPath] = {PurePosixPath("/")}
        self._durable_folders: set[PurePosixPath] = {PurePosixPath("/")}
        self._pending: dict[PurePosixPath, list[Change]] = {}
        self.locks: dict[PurePosixPath, Life] = {}

    # --- files --------------------------------------------------------------------------------------------------

    def inode(self, path: PurePosixPath) -> Inode:
        try:
            return self._names[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None

    def exists(self, path: PurePosixPath) -> bool:
        return path in self._names or path in self._folders

    def set_name(self, path: PurePosixPath, inode: Inode | None) -> None:
        self._see_folder(path.parent)
        if inode is None:
            self._names.pop(path, None)
        else:
            self._names[path] = inode
        self._pending.setdefault(path.parent, []).append(Change(path, inode))

    def _see_folder(self, folder: PurePosixPath) -> None:
        if folder not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))

    def names(self, folder: PurePosixPath) -> list[str]:
        return sorted(path.name for path in [*self._names, *self._folders] if path.parent == folder != path)

    def make_folder(self, folder: PurePosixPath) -> None:
        self._see_folder(folder.parent)
        self._folders.add(folder)

    def is_folder(self, folder: PurePosixPath) -> bool:
        return folder in self._folders

    def sync_folder(self, folder: PurePosixPath) -> None:
        """Make the names in a folder durable; the folder's own name is in its parent."""
        self._see_folder(folder)
        for change in self._pending.pop(folder, []):
            self._apply(change)
        self._durable_folders.update(path for path in self._folders if path.parent == folder)

    def _apply(self, change: Change) -> None:
        if change.inode is None:
            self._durable.pop(change.name, None)
        else:
            self._durable[change.name] = change.inode

    def used(self) -> int:
        return sum(len(inode.data) for inode in self._names.values())

    # --- power --------------------------------------------------------------------------------------------------

    def cut_power(self) -> None:
        """Lose what is not durable, and keep some of it by chance."""
        for folder in sorted(self._folders - self._durable_folders):
            if self._rng.random() < self.kept and folder.parent in self._durable_folders:
                self._durable_folders.add(folder)
        for folder in sorted(self._pending):
            for change in self._pending[folder]:
                if self._rng.random() < self.kept:
                    self._apply(change)
        self._pending.clear()
        self._folders = set(self._durable_folders)
        self._durable = {path: inode for path, inode in self._durable.items() if self._is_reachable(path.parent)}
        self._folders = {folder for folder in self._folders if self._is_reachable(folder)}
        self._durable_folders = set(self._folders)
        self._names = dict(self._durable)
        for path in sorted(self._names):
            self._names[path].cut_power(self.kept, self.torn, self._rng)
        self.locks.clear()

    def _is_reachable(self, folder: PurePosixPath) -> bool:
        return all(part in self._durable_folders for part in (folder, *folder.parents))

    def durable_inodes(self) -> list[tuple[PurePosixPath, Inode]]:
        """What a power cut could not take: the files whose names are durable."""
        return [(path, self._durable[path]) for path in sorted(self._durable) if self._is_reachable(path.parent)]

    def written_marks(self, is_mark: Callable[[int], bool], *, below: str = "/") -> set[int]:
        """The marks of readings in all files of folders of this name, as they are read now."""
        inodes = [inode for path, inode in self._names.items() if below in path.parts]
        return {mark for inode in inodes for mark in _marks_in(inode.data, is_mark)}

    # --- faults -------------------------------------------------------------------------------------------------

    def lose_sector(self, where: str, file: float, part: float, is_mark: Callable[[int], bool]) -> set[int]:
        """Read one sector of a file whose path ends so no more; return the marks of the file, which may be lost."""
        inodes = [self._names[path] for path in sorted(self._names) if str(path).endswith(where)]
        inodes = [inode for inode in inodes if inode.data]
        if not inodes:
            return set()
        inode = inodes[int(file * len(inodes))]
        inode.unreadable.add(int(part * len(inode.data)) // SECTOR)
        return _marks_in(inode.data, is_mark)

    def fault(self, call: str, path: PurePosixPath) -> Fault | None:
        """The fault that this call meets, if any."""
        for fault in self.faults:
            if fault.call in (call, "any") and fault.left > 0 and str(path).endswith(fault.where):
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.left -= 1
                return fault
        return None

    def note_sync(self, has_work: bool) -> None:
        """Count the syncs in a row that have nothing to write."""
        self._idle_syncs = 0 if has_work else self._idle_syncs + 1
        self.idle_syncs_most = max(self.idle_syncs_most, self._idle_syncs)

    def room(self) -> int:
        return max(0, self.capacity - self.used())

    @property
    def rng(self) -> random.Random:
        return self._rng


def _error(number: int, path: PurePosixPath) -> OSError:
    return OSError(number, os.strerror(number), str(path))


class SimulatedFile:
    """An append-only file (`daemon.core.outside.File`): after a failure only `close` may be called."""

    def __init__(self, disk: "SimulatedDisk", path: PurePosixPath, inode: Inode) -> None:
        self._disk, self._path, self._inode = disk, path, inode
        self._has_failed = self._is_closed = False

    def append(self, buffers: Sequence[Buffer]) -> None:
        self._see_usable()
        data = b"".join(bytes(buffer) for buffer in buffers)
        drive = self._disk.drive
        fault = self._disk.begin("append", self._path)
        most = len(data) if fault is None else int(len(data) * fault.short)
        fits = min(most, drive.room())
        start = len(self._inode.data)
        self._inode.write(start, data[:fits])
        if fits < len(data):
            self._has_failed = True
            if drive.rng.random() < 0.5:
                self._inode.truncate(start)  # a courtesy, which may fail as well
            raise _error(fault.error if fault is not None and fits == most else errno.ENOSPC, self._path)
        self._disk.end()

    def sync(self) -> None:
        self._see_usable()
        fault = self._disk.begin("sync", self._path)
        if fault is not None:
            self._has_failed = True
            self._inode.fail_sync(fault.short, self._disk.drive.rng)
            raise _error(fault.error, self._path)
        self._disk.drive.note_sync(bool(self._inode.dirty))
        self._inode.sync()
        self._disk.end()

    def close(self) -> None:
        self._is_closed = True

    def _see_usable(self) -> None:
        assert not self._is_closed, f"{self._path} is closed"
        assert not self._has_failed, f"{self._path} failed before, and may only be closed"


class _Lock(contextlib.AbstractContextManager["_Lock"]):
    def __init__(self, drive: Drive, path: PurePosixPath, life: Life) -> None:
        self._drive, self._path, self._life = drive, path, life

    def release(self) -> None:
        if self._drive.locks.get(self._path) is self._life:
            del self._drive.locks[self._path]

    def __exit__(self, *_: object) -> None:
        self.release()


class SimulatedDisk:
    """What one life of a daemon sees of a drive.

    A life may end before a call has an effect (`begin`), and after it (`end`); the caller sees no difference.
    """

    def __init__(self, drive: Drive, life: Life) -> None:
        self.drive, self._life = drive, life

    def begin(self, call: str, path: PurePosixPath) -> Fault | None:
        self._life.note("disk")
        return self.drive.fault(call, path)

    def end(self) -> None:
        self._life.note("disk")

    def _checked(self, call: str, path: PurePosixPath) -> None:
        fault = self.begin(call, path)
        if fault is not None:
            raise _error(fault.error, path)

    def create(self, path: Path) -> SimulatedFile:
        where = PurePosixPath(path)
        self._checked("create", where)
        if self.drive.exists(where):
            raise _error(errno.EEXIST, where)
        inode = Inode()
        self.drive.set_name(where, inode)
        self.end()
        return SimulatedFile(self, where, inode)

    def size(self, path: Path) -> int:
        self._checked("size", PurePosixPath(path))
        return len(self.drive.inode(PurePosixPath(path)).data)

    def read(self, path: Path, start: int, end: int) -> bytes:
        self._checked("read", PurePosixPath(path))
        return self.drive.inode(PurePosixPath(path)).read()[start:end]

    def names(self, folder: Path) -> list[str]:
        self._life.note("disk")
        return self.drive.names(PurePosixPath(folder))

    def remove(self, path: Path) -> None:
        where = PurePosixPath(path)
        self._checked("remove", where)
        if self.drive.exists(where):
            self.drive.set_name(where, None)
        self.end()

    def replace(self, path: Path, data: bytes) -> None:
        """A partial file, its sync, the rename, and the sync of the folder; the life may end between any two."""
        where = PurePosixPath(path)
        partial = where.with_name(f"{where.name}.partial")
        self._checked("create", partial)
        inode = Inode()
        self.drive.set_name(partial, inode)
        self._checked("append", partial)
        if len(data) > self.drive.room():
            raise _error(errno.ENOSPC, partial)
        inode.write(0, data)
        fault = self.begin("sync", partial)
        if fault is not None:
            inode.fail_sync(fault.short, self.drive.rng)
            raise _error(fault.error, partial)
        inode.sync()
        self._checked("replace", where)
        self.drive.set_name(where, inode)
        self.drive.set_name(partial, None)
        self.sync_folder(path.parent)

    def make_folder(self, folder: Path) -> None:
        where = PurePosixPath(folder)
        for part in reversed((where, *where.parents)):
            if not self.drive.is_folder(part):
                self._checked("make_folder", part)
                self.drive.make_folder(part)
                self.sync_folder(Path(part.parent))

    def sync_folder(self, folder: Path) -> None:
        self._checked("sync_folder", PurePosixPath(folder))
        self.drive.sync_folder(PurePosixPath(folder))
        self.end()

    def free(self, folder: Path) -> int:
        self._checked("free", PurePosixPath(folder))
        return self.drive.room()

    def lock(self, path: Path) -> _Lock:
        where = PurePosixPath(path)
        self._checked("lock", where)
        holder = self.drive.locks.get(where)
        if holder is not None and not holder.is_dead:
            raise FolderInUse(str(where))
        if not self.drive.exists(where):
            self.drive.set_name(where, Inode())
        self.drive.locks[where] = self._life
        return _Lock(self.drive, where, self._life)


def _marks_in(data: bytearray, is_mark: Callable[[int], bool]) -> set[int]:
    whole = len(data) - len(data) % 8
    return {word for word in memoryview(bytes(data[:whole])).cast("q").tolist() if is_mark(word)}

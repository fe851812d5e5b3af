"""The disk: files that are only appended to, whole files that are replaced, and the folders that hold them.

Everything raises OSError as the system does, and blocks. Bytes that a disk cannot read are damage, and no reason to
stop: they are read as zeros, which no checksum fits. Nothing is mapped: a mapped page that cannot be read ends the
process.
"""

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from backends.files import Folder, FolderLock, sync_folder

log = logging.getLogger("triggerlog")

Buffer = bytes | memoryview

UNREADABLE = frozenset({errno.EIO, errno.EUCLEAN, errno.EBADMSG, errno.ENODATA, errno.EILSEQ})
"""Errors of a disk, or of a file system, that cannot read what is there."""

SECTOR = 4096
"""Bytes that cannot be read are taken for so many, at a multiple of it."""

SECTORS_TRIED = 16
"""After so many sectors in a row that cannot be read the steps double: a disk may take seconds for each."""

STRETCH = 8 * 2**20
"""Bytes of a file that are read at a time to look through it."""

BUFFERS_AT_ONCE = 512
"""Buffers handed to one writev; the system's limit (IOV_MAX) is 1024."""


class File(Protocol):
    """A file that is appended to. After any failure only `close` is allowed."""

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write buffers behind each other; after a failure part of them may be there."""

    def sync(self) -> None:
        """Wait until all that was appended is on the disk; its name is not among it."""

    def close(self) -> None:
        """Let go of it."""


class Lock(Protocol):
    """A lock that is held."""

    def release(self) -> None:
        """Let others have it."""


class Disk(Protocol):
    """The file system. A new name, or one that is gone, is durable after `sync_folder` of its folder."""

    def create(self, path: Path) -> File:
        """Make a file to append to; raises FileExistsError where there is one."""

    def size(self, path: Path) -> int:
        """Its length in bytes."""

    def read(self, path: Path, start: int, end: int) -> bytes:
        """The bytes from start to end; fewer where the file ends before, and 0 for those that cannot be read."""

    def names(self, folder: Path) -> list[str]:
        """The names in a folder, sorted; none where there is no folder."""

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is fine."""

    def replace(self, path: Path, data: bytes) -> None:
        """Make a file hold these bytes; when it returns that is durable, and before, the file is as it was."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder, and its parents; each new name is durable when it returns."""

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on the disk."""

    def free(self, folder: Path) -> int:
        """Bytes that are free for who is not root."""

    def lock(self, path: Path) -> Lock:
        """Lock a file, which is made if it is not there; raises FolderInUse while another process holds it."""


class Contents:
    """The bytes of a file, read a stretch at a time; nbytes: as many of them, else all."""

    def __init__(self, disk: Disk, path: Path, nbytes: int | None = None) -> None:
        self._disk = disk
        self._path = path
        self._take(0, b"" if nbytes is not None else disk.read(path, 0, STRETCH))
        if nbytes is None:
            nbytes = self._end if self._end < STRETCH else disk.size(path)
        self._nbytes = nbytes

    def _take(self, start: int, data: bytes) -> None:
        self._data, self._view = data, memoryview(data)
        self._start, self._end = start, start + len(data)

    def __len__(self) -> int:
        return self._nbytes

    def __getitem__(self, wanted: slice) -> memoryview:
        start, end = wanted.start or 0, self._nbytes
        if wanted.stop is not None and wanted.stop < end:
            end = wanted.stop
        if start < self._start or end > self._end:
            behind = max(end, min(start + STRETCH, self._nbytes))
            self._take(start, self._disk.read(self._path, start, behind))
        return self._view[start - self._start : end - self._start] if start < end else self._view[:0]

    def find(self, what: bytes, at: int) -> int:
        """Return the offset of the first such bytes from an offset on, -1 where there are none."""
        while at < self._nbytes:
            self[at : at + len(what)]
            found = self._data.find(what, at - self._start)
            if found >= 0:
                return self._start + found
            at = max(at + 1, self._end - len(what) + 1) if self._end < self._nbytes else self._nbytes
        return -1


class SystemDisk:
    """The file systems of this machine.

    A file of which bytes could not be read is named once, by `report`, and is not removed, nor replaced: it is kept
    beside, as `NAME.unreadable`. Its disk may read it one day.
    """

    def __init__(self) -> None:
        self.report: Callable[[str], None] = log.error
        self._unreadable: set[Path] = set()

    def create(self, path: Path) -> "SystemFile":
        """Make a file to append to."""
        return SystemFile(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640))

    def size(self, path: Path) -> int:
        """Its length in bytes."""
        return path.stat().st_size

    def read(self, path: Path, start: int, end: int) -> bytes:
        """The bytes from start to end."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self._note_unreadable(path, start, error)
            return bytes(end - start)
        try:
            return self._read(path, descriptor, start, min(end, os.fstat(descriptor).st_size))
        finally:
            os.close(descriptor)

    def _read(self, path: Path, descriptor: int, start: int, end: int) -> bytes:
        parts: list[bytes] = []
        failed = 0
        while start < end:
            try:
                part = os.pread(descriptor, end - start, start)
                failed = 0
            except OSError as error:
                self._note_unreadable(path, start, error)
                step = SECTOR << max(0, failed - SECTORS_TRIED)
                part = bytes(min(step - start % SECTOR, end - start))
                failed += 1
            if not part:
                break
            parts.append(part)
            start += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _note_unreadable(self, path: Path, at: int, error: OSError) -> None:
        if error.errno not in UNREADABLE:
            raise error
        if path not in self._unreadable:
            self._unreadable.add(path)
            self.report(
                f"{path} cannot be read ({os.strerror(error.errno or errno.EIO).lower()}) at byte {at}: what is there"
                f" counts as damaged, and before the file is removed or replaced it is kept as {path}.unreadable. Look"
                " for errors of its disk (`dmesg`), and replace the disk"
            )

    def _keep_unreadable(self, path: Path) -> None:
        if path not in self._unreadable or not path.exists():
            return
        kept, number = path.with_name(f"{path.name}.unreadable"), 1
        while kept.exists():
            number += 1
            kept = path.with_name(f"{path.name}.unreadable-{number}")
        try:
            os.link(path, kept)  # a crash before the file is replaced leaves it
        except OSError:
            path.rename(kept)
        self._unreadable.discard(path)

    def names(self, folder: Path) -> list[str]:
        """The names in a folder."""
        try:
            return sorted(path.name for path in folder.iterdir())
        except FileNotFoundError:
            return []

    def remove(self, path: Path) -> None:
        """Remove a file."""
        self._keep_unreadable(path)
        path.unlink(missing_ok=True)

    def replace(self, path: Path, data: bytes) -> None:
        """Make a file hold these bytes, by way of a file beside it, `NAME.partial`."""
        self._keep_unreadable(path)
        with Folder(path.parent) as parent:
            parent.replace(path.name, data)
        self.sync_folder(path.parent)

    def make_folder(self, folder: Path) -> None:
        """Make a folder, and its parents."""
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            self.sync_folder(each.parent)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on the disk."""
        sync_folder(folder)

    def free(self, folder: Path) -> int:
        """Bytes that are free for who is not root."""
        found = os.statvfs(folder)
        return found.f_bavail * found.f_frsize

    def lock(self, path: Path) -> FolderLock:
        """Lock a file."""
        return FolderLock(path)


class SystemFile:
    """A file of the system; use `SystemDisk.create`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._nbytes = 0

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write buffers behind each other, without copying them."""
        try:
            self._nbytes += _write_all(self._descriptor, buffers)
        except OSError:
            # For the space alone, which on a full disk others may need: who reads a file finds its end by checksums.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._nbytes)
            raise

    def sync(self) -> None:
        """Wait until all that was appended is on the disk."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)


def _write_all(descriptor: int, buffers: Sequence[Buffer]) -> int:
    total = 0
    for start in range(0, len(buffers), BUFFERS_AT_ONCE):
        left = [memoryview(buffer) for buffer in buffers[start : start + BUFFERS_AT_ONCE]]
        while left:
            written = os.writev(descriptor, left)
            total += written
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if left and written:
                left[0] = left[0][written:]
    return total

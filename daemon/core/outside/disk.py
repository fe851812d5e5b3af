"""The disk: files that are only appended to, whole files that are replaced, and the folders that hold them.

Everything raises OSError as the system does, and blocks.
"""

import contextlib
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from backends.files import Folder, sync_folder
from backends.folder_lock import FolderLock

Buffer = bytes | memoryview

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

    def open_view(self, path: Path) -> AbstractContextManager[mmap.mmap | bytes]:
        """All of a file, to look through."""

    def read(self, path: Path, start: int, end: int) -> bytes:
        """The bytes from start to end; fewer where the file ends before."""

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


class SystemDisk:
    """The file systems of this machine."""

    def create(self, path: Path) -> "SystemFile":
        """Make a file to append to."""
        return SystemFile(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640))

    def size(self, path: Path) -> int:
        """Its length in bytes."""
        return path.stat().st_size

    @contextlib.contextmanager
    def open_view(self, path: Path) -> Iterator[mmap.mmap | bytes]:
        """All of a file, mapped; of an empty one there is nothing to map."""
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                yield b""
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                yield mapped

    def read(self, path: Path, start: int, end: int) -> bytes:
        """The bytes from start to end."""
        with path.open("rb") as file:
            file.seek(start)
            return file.read(end - start)

    def names(self, folder: Path) -> list[str]:
        """The names in a folder."""
        try:
            return sorted(path.name for path in folder.iterdir())
        except FileNotFoundError:
            return []

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink(missing_ok=True)

    def replace(self, path: Path, data: bytes) -> None:
        """Make a file hold these bytes, by way of a file beside it, `NAME.partial`."""
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

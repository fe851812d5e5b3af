"""The lock of a folder: what lies in it belongs to one process at a time, or to several that share it."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Self


class FolderInUse(Exception):
    """Another process holds the lock; the message is the lock's path."""


class FolderLock:
    """A locked file. The kernel releases it when the process ends, however that ends; the file stays."""

    def __init__(self, path: Path, *, shared: bool = False, wait: bool = False) -> None:
        """Lock `path`, which is made if it is not there.

        shared: beside others that hold it shared. wait: until it is free.

        Raises:
            FolderInUse: another process holds it, and there is no waiting.
            OSError: the file cannot be made, or is a link.
        """
        self._path = path
        flags = os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.ENOSPC):
                raise
            self._descriptor = os.open(path, os.O_RDONLY | flags)  # a lock needs no writing
        try:
            self._lock(fcntl.LOCK_SH if shared else fcntl.LOCK_EX, wait=wait)
        except BaseException:
            self.release()
            raise

    def become_only(self) -> None:
        """Hold alone what was shared; raises FolderInUse while others hold it, too."""
        self._lock(fcntl.LOCK_EX, wait=False)

    def fileno(self) -> int:
        """Return its descriptor: a child that inherits it keeps the lock for as long as it lives."""
        return self._descriptor

    def release(self) -> None:
        """Let others have it."""
        os.close(self._descriptor)

    def _lock(self, kind: int, *, wait: bool) -> None:
        try:
            fcntl.flock(self._descriptor, kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(str(self._path)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

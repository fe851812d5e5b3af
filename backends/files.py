"""Files and folders that are whole or not there, the folder of another account, and the lock of a folder.

In the folder of another account root follows no link. What lies in a locked folder belongs to one process at a time, or
to several that share it.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Self

MOST_BYTES = 2**20
"""Read of a file in an open folder: those are settings, lock files and logs."""


class NotPlain(OSError):
    """A link, a pipe or somebody else's file is where a plain file of the folder's owner should be."""


class Folder:
    """An open folder: its files are reached by their names in it, and it stays the same if its path changes.

    Where it belongs to another account than this process's, that account may put anything into it at any moment. Then
    links are not followed, only plain files of its owner and of root are read, and new files are given to its owner.
    """

    def __init__(self, path: Path, *, follow: bool = True) -> None:
        """Open `path`; follow: even if that itself is a link.

        Raises:
            OSError: it is not there, or not a folder.
        """
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
        found = os.fstat(self._descriptor)
        self.owner, self._group = found.st_uid, found.st_gid

    @property
    def is_foreign(self) -> bool:
        """Another account owns it."""
        return self.owner != os.geteuid()

    def give_to(self, user: int, group: int) -> None:
        """Change its owner."""
        os.fchown(self._descriptor, user, group)
        self.owner, self._group = user, group

    def written_since(self, since: float) -> list[str]:
        """The names of what was written since a time of the clock, the last one first."""
        with os.scandir(self._descriptor) as entries:
            times = {entry.name: entry.stat(follow_symlinks=False).st_mtime for entry in entries}
        return sorted((name for name in times if times[name] >= since), key=times.__getitem__, reverse=True)

    def read(self, name: str, *, end: bool = False) -> str | None:
        """The beginning of a file, or its end, at most MOST_BYTES; None where there is none.

        Raises:
            NotPlain: nobody but the folder's owner can have put it there, and it is none of its files.
        """
        try:
            # Opening a pipe would wait for somebody who writes into it.
            descriptor = self._open(name, os.O_RDONLY | os.O_NONBLOCK | (os.O_NOFOLLOW if self.is_foreign else 0))
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if self.is_foreign and not self._is_own(found):
                raise NotPlain(None, f"no plain file of user {self.owner}, who owns the folder", self._in(name))
            file.seek(max(0, found.st_size - MOST_BYTES) if end else 0)
            return file.read(MOST_BYTES).decode(errors="replace")

    def replace(self, name: str, data: bytes, *, mode: int = 0o640) -> None:
        """Make a file hold these bytes, all or, after an error, none; that is durable after `sync`.

        It is written as NAME.partial. A link that has one of the names is replaced, not followed.
        """
        partial = f"{name}.partial"
        self.remove(partial)
        descriptor = self._open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with self._named(partial), os.fdopen(descriptor, "wb") as file:
                if self.is_foreign and os.geteuid() == 0:
                    os.fchown(descriptor, self.owner, self._group)
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            with self._named(name):
                os.rename(partial, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except OSError:
            self.remove(partial)
            raise

    def remove(self, *names: str) -> None:
        """Remove files; those that are not there are fine."""
        for name in names:
            with contextlib.suppress(FileNotFoundError), self._named(name):
                os.unlink(name, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Wait until the names in it are on the disk."""
        with self._named("."):
            os.fsync(self._descriptor)

    def _open(self, name: str, flags: int, mode: int = 0) -> int:
        with self._named(name):
            return os.open(name, flags | os.O_CLOEXEC, mode, dir_fd=self._descriptor)

    def _is_own(self, found: os.stat_result) -> bool:
        # Root may have written it there; a link to a file of root's that is elsewhere is its second name.
        is_roots = found.st_uid == 0 and found.st_nlink == 1
        return stat.S_ISREG(found.st_mode) and (found.st_uid == self.owner or is_roots)

    def _in(self, name: str) -> str:
        return str(self.path / name)

    @contextlib.contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Give an error the whole path: it would have the name alone."""
        try:
            yield
        except OSError as error:
            error.filename, error.filename2 = self._in(name), None
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def replace_file(path: Path, data: bytes, *, mode: int = 0o640) -> None:
    """Make a file hold these bytes; when it returns that is durable. See `Folder.replace`."""
    with Folder(path.parent) as folder:
        folder.replace(path.name, data, mode=mode)
        folder.sync()


@contextlib.contextmanager
def whole_file(path: Path, *, is_optional: bool = False) -> Iterator[Path]:
    """Give a path to write to, PATH.partial; the file gets its name once it is on the disk, none after an error.

    is_optional: it may be that nothing is written; then no file of an earlier time is left either.
    """
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        yield partial
        if is_optional and not partial.exists():
            path.unlink(missing_ok=True)
            return
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Give an empty folder to fill, PATH.partial; it becomes `path`, which must not be there or be empty, at the end.

    What is in it has to be on the disk by then: see `sync_tree`. Nobody else may make the same one meanwhile.

    Raises:
        OSError: there is no room, `path` is not empty, or something is mounted there.
    """
    partial = path.with_name(f"{path.name}.partial")
    _remove_tree(partial)
    partial.mkdir(mode=0o700)
    try:
        yield partial
        partial.rename(path)
        sync_folder(path.parent)
    except BaseException:
        _remove_tree(partial)
        raise


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    with Folder(path) as folder:
        folder.sync()


def sync_tree(folder: Path) -> None:
    """Wait until all files and names below a folder are on the disk."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _remove_tree(path: Path) -> None:
    """Remove a folder with all in it, or a file or link of that name; rmtree itself follows no link below it."""
    try:
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()
    except FileNotFoundError:
        return


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

"""`python -m tests.support.unreadable_files ROOT MOUNT BAD`: the files of ROOT, of which some bytes cannot be read.

BAD: a JSON file, read with each read: pairs of a path and an offset. Served until it is unmounted.
"""

import errno
import json
import os
import sys
from pathlib import Path

from mfusepy import FUSE, FuseOSError, Operations


class UnreadableFiles(Operations):
    def __init__(self, root: str, bad: Path) -> None:
        self._root, self._bad = root, bad

    def path(self, path: str) -> Path:
        return Path(self._root + path)

    def getattr(self, path, fh=None):
        found = self.path(path).lstat()
        return {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}

    def statfs(self, path):
        found = os.statvfs(self.path(path))
        return {name: getattr(found, name) for name in dir(found) if name.startswith("f_")}

    def readdir(self, path, fh):
        return [".", "..", *(each.name for each in self.path(path).iterdir())]

    def mkdir(self, path, mode):
        self.path(path).mkdir(mode)

    def rmdir(self, path):
        self.path(path).rmdir()

    def unlink(self, path):
        self.path(path).unlink()

    def rename(self, old, new):
        self.path(old).replace(self.path(new))

    def link(self, target, source):
        self.path(target).hardlink_to(self.path(source))

    def chmod(self, path, mode):
        self.path(path).chmod(mode)

    def utimens(self, path, times=None):
        os.utime(self.path(path), times)

    def open(self, path, flags):
        return os.open(self.path(path), flags & ~os.O_APPEND)  # the kernel says where to write

    def create(self, path, mode, fi=None):
        return os.open(self.path(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def read(self, path, size, offset, fh):
        for name, at in json.loads(self._bad.read_text()):
            if path == name and offset <= at < offset + size:
                raise FuseOSError(errno.EIO)
        return os.pread(fh, size, offset)

    def write(self, path, data, offset, fh):
        return os.pwrite(fh, data, offset)

    def truncate(self, path, length, fh=None):
        os.truncate(self.path(path), length)

    def fsync(self, path, datasync, fh):
        os.fsync(fh)

    def release(self, path, fh):
        os.close(fh)


if __name__ == "__main__":
    ROOT, MOUNT, BAD = sys.argv[1:]
    FUSE(UnreadableFiles(ROOT, Path(BAD)), MOUNT, foreground=True, nothreads=True)

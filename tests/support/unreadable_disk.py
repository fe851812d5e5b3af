"""Disks for tests, mounted for real: one that cannot read a sector, and one that is small."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.processes import until


class UnreadableDisk:
    """Where it is mounted, and which of its bytes cannot be read."""

    def __init__(self, folder: Path) -> None:
        self.root, self.mount, self.bad = folder / "root", folder / "mount", folder / "bad.json"
        self.root.mkdir()
        self.mount.mkdir()
        self.mend()

    def damage(self, path: Path, offset: int) -> None:
        """Let no read of this byte of a file succeed."""
        bad = [*json.loads(self.bad.read_text()), (f"/{path.relative_to(self.mount)}", offset)]
        self.bad.write_text(json.dumps(bad))

    def mend(self) -> None:
        """Let all reads succeed."""
        self.bad.write_text("[]")


@contextmanager
def unreadable_disk(folder: Path) -> Iterator[UnreadableDisk]:
    """Mount it in a folder; where that cannot be done the test skips, and fails where CI=true."""
    disk = UnreadableDisk(folder)
    command = [sys.executable, "-m", "tests.support.unreadable_files", disk.root, disk.mount, disk.bad]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: disk.mount.is_mount() or process.poll() is not None, "it is mounted")
        if process.poll() is not None:
            assert process.stderr is not None
            _cannot_mount(f"FUSE (apt-get install fuse): {process.stderr.read()[-500:]}")
        try:
            yield disk
        finally:
            subprocess.run(["fusermount", "-u", "-z", disk.mount], check=True)
            process.wait(60)


@contextmanager
def small_disk(folder: Path, size_kib: int) -> Iterator[Path]:
    """Mount a file system of so many KiB in a folder, as root; else the test skips, and fails where CI=true."""
    mount = folder / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "none", mount]
    mounted = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if mounted.returncode:
        _cannot_mount(f"tmpfs: {mounted.stderr}")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", mount], check=True)


def _cannot_mount(why: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)

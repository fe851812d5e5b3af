"""A control group that limits a server's memory, so that its data outgrows the system's page cache, too. Root only."""

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

ROOT = Path("/sys/fs/cgroup")
PATIENCE_S = 10.0
POLL_S = 0.05

_numbers = itertools.count(1)


class NoMemoryLimit(Exception):
    """There is no control group to be had; the message says why."""


@contextmanager
def limited(mib: int) -> Iterator[Path]:
    """Make a control group whose processes and their page cache have so much memory; it is gone afterwards.

    Raises:
        NoMemoryLimit: this account cannot have one here.
    """
    group, limit = _place()
    try:
        group.mkdir()
    except OSError as error:
        raise NoMemoryLimit(f"{group} cannot be made: {error.strerror}") from None
    try:
        try:
            (group / limit).write_text(str(mib * 2**20))
        except OSError as error:
            raise NoMemoryLimit(f"{group / limit} cannot be set: {error.strerror}") from None
        yield group
    finally:
        _remove(group)


def move(group: Path, pid: int) -> None:
    """Move a process with all its children into a group; what they start later is in it, too."""
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        # One that has ended meanwhile need not be moved.
        with contextlib.suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(process.pid))


def _place() -> tuple[Path, str]:
    name = f"triggerlog-bench-{os.getpid()}-{next(_numbers)}"
    if (ROOT / "memory" / "memory.limit_in_bytes").exists():
        return ROOT / "memory" / name, "memory.limit_in_bytes"
    controllers = ROOT / "cgroup.subtree_control"
    if controllers.exists() and "memory" in controllers.read_text().split():
        return ROOT / name, "memory.max"
    raise NoMemoryLimit("the memory controller of control groups is not here")


def _remove(group: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            group.rmdir()
        except OSError:
            # The server's last processes may still be ending.
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
        else:
            return

"""What the tests' own servers need: that they are here, and a folder."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from backends.throwaway import ServerNotInstalled


@contextmanager
def installed() -> Iterator[None]:
    """Skip what needs a server that is not on a laptop; where CI=true it has to be."""
    try:
        yield
    except ServerNotInstalled as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


def needs(program: str, package: str, path: str | None = None) -> None:
    """See that a program is on this machine; for use in `installed`."""
    if shutil.which(program, path=path) is None:
        raise ServerNotInstalled(f"no {program} on this machine: install {package}")


MEMORY = Path("/dev/shm")
ROOM_BYTES = 6 * 2**30
"""Far more than the servers of a run take."""
PREFIX = "triggerlog-test-"


@contextmanager
def server_folder() -> Iterator[Path]:
    """A folder for a server, gone afterwards."""
    # Not pytest's tmp_path: the folder above it is closed to all but its owner.
    with tempfile.TemporaryDirectory(
        prefix=f"{PREFIX}{os.getpid()}-", dir=_in_memory(), ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o711)  # as root the server runs under another account
        yield Path(folder)


def _in_memory() -> Path | None:
    """Memory, where it has room: no test cuts the power, so waiting for a disk proves nothing. TMPDIR overrides."""
    if os.environ.get("TMPDIR") or not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        return None
    return MEMORY if shutil.disk_usage(MEMORY).free >= ROOM_BYTES else None


def sweep_server_folders() -> None:
    """Remove what runs that were killed have left in memory."""
    for folder in MEMORY.glob(f"{PREFIX}*-*") if _in_memory() else ():
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)

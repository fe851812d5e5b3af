"""The lock of a folder: one process alone, or several that share it; the kernel releases it with the process."""

import subprocess
import sys
from pathlib import Path

import pytest

from backends.files import FolderInUse, FolderLock

HOLD = (
    "import sys; from pathlib import Path; from backends.files import FolderLock; "
    "lock = FolderLock(Path(sys.argv[1]), shared=sys.argv[2] == 'shared'); print('held', flush=True); sys.stdin.read()"
)


def held(path: Path, how: str) -> subprocess.Popen[str]:
    """A process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_it_belongs_to_one_process_until_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with held(path, "alone") as other:
        with pytest.raises(FolderInUse, match="lock"):
            FolderLock(path)
        other.kill()
        other.wait()
        with FolderLock(path, wait=True), pytest.raises(FolderInUse):
            FolderLock(path, shared=True)
    FolderLock(path).release()


def test_it_is_shared_until_one_is_left(tmp_path: Path) -> None:
    path = tmp_path / "users"
    mine = FolderLock(path, shared=True)
    with held(path, "shared") as other:
        with pytest.raises(FolderInUse):
            mine.become_only()
        other.kill()
        other.wait()
        mine.become_only()
        with pytest.raises(FolderInUse):
            FolderLock(path, shared=True)
    mine.release()

"""Kills in tests: how often, and what one leaves of a folder."""

import os
import shutil
from pathlib import Path

THOROUGH = "TRIGGERLOG_KILLS" in os.environ
"""Whether every database is tried in every way."""
KILLS = int(os.environ.get("TRIGGERLOG_KILLS") or 4)
"""A few times in the whole suite, for want of time, or as the variable says."""


def copy_of(folder: Path, to: Path) -> Path:
    """Copy a living daemon's folder as kill -9 would leave it: again, if its threads changed anything meanwhile."""
    while True:
        before = _listed(folder)
        try:
            shutil.copytree(folder, to)
        except (shutil.Error, FileNotFoundError):  # a file was removed after it was listed
            assert _listed(folder) != before
        else:
            if _listed(folder) == before:
                return to
        shutil.rmtree(to, ignore_errors=True)


def _listed(folder: Path) -> dict[Path, tuple[int, int] | None]:
    found: dict[Path, tuple[int, int] | None] = {}
    for path in folder.rglob("*"):
        try:
            stat = path.stat()
        except FileNotFoundError:
            found[path] = None
        else:
            found[path] = (stat.st_size, stat.st_mtime_ns)
    return found

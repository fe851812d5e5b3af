"""A copy of a state folder that a daemon is using, as kill -9 would leave it at one moment."""

import shutil
from pathlib import Path


def copy_of(folder: Path, to: Path) -> Path:
    """Copy a folder, again where anything in it changed meanwhile: threads of its daemon write and remove files."""
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

"""The state folder in a backup.

Everything is copied but what follows from the rest: who adds a file to the folder need not know of backups. Left out
are the embedded server, which the database's tools copy, locks, the output of processes, how the last daemon ended, and
files half written.

While a daemon runs, a reading moves on: from the journal to the database, or to the dead letters. So they are copied in
that order, and whatever was acknowledged when the copying began is in one of the copies, some of it in two: a start
with a copied folder beside a newer database stores it once. Retried letters move backwards; then it is begun again.
"""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from daemon.core.monitoring.event_log import TAKEN, TAKING
from daemon.core.outcome import CommandFailed, names_file
from daemon.core.outside import SystemDisk
from daemon.core.process.state_folder import RESTORING
from daemon.pipeline.dead_letters.format import ENDING as LETTERS
from daemon.pipeline.log.log import ENDING, INTAKE

DEAD_LETTERS = "dead-letters"


def before_the_database(state_dir: Path) -> Iterator[tuple[str, int, bytes]]:
    """Give the files that are copied before the database: path in the folder, mode, content."""
    # What names the segments comes after them: then it knows of all of them.
    yield from _read(sorted(_paths(state_dir, state_dir / INTAKE), key=lambda file: file[1].suffix != ENDING))
    for path in sorted(state_dir.iterdir()):
        if path.name not in (INTAKE, DEAD_LETTERS):
            yield from _files(state_dir, path)


def after_the_database(state_dir: Path) -> Iterator[tuple[str, int, bytes]]:
    """Give the dead letters, which are copied last."""
    yield from _files(state_dir, state_dir / DEAD_LETTERS)


def letter_sizes(state_dir: Path) -> dict[str, int]:
    """Return the size of each file of dead letters: it grows, or letters were retried or discarded."""
    letters = after_the_database(state_dir)
    return {name: len(content) for name, _, content in letters if name.endswith(LETTERS)}


def contents(state_dir: Path) -> list[str]:
    """Return the names in the folder that a restore would write beside."""
    return sorted({PurePosixPath(name).parts[0] for name, _ in _paths(state_dir, state_dir)})


def write(state_dir: Path, files: Iterable[tuple[PurePosixPath, int, IO[bytes]]]) -> None:
    """Write files into the folder in which they wait for the database to be restored."""
    disk, folder = SystemDisk(), state_dir / RESTORING
    disk.make_folder(folder)
    for name, mode, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with names_file(path), open(path, "xb", opener=partial(os.open, mode=mode)) as file:
            shutil.copyfileobj(content, file)
            file.flush()
            os.fsync(file.fileno())
    owner = state_dir.stat()
    for path in (folder, *folder.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
        if path.is_dir():
            disk.sync_folder(path)


def put_in_place(state_dir: Path) -> None:
    """Give the files their places: the last step of a restore."""
    folder = state_dir / RESTORING
    for path in sorted(folder.iterdir()):
        path.rename(state_dir / path.name)
    SystemDisk().sync_folder(state_dir)
    folder.rmdir()
    SystemDisk().sync_folder(state_dir)


def discard(state_dir: Path) -> None:
    """Remove what waits there: the restore has failed, and left nothing."""
    shutil.rmtree(state_dir / RESTORING)


def _files(state_dir: Path, place: Path) -> Iterator[tuple[str, int, bytes]]:
    yield from _read(_paths(state_dir, place))


def _read(paths: Iterable[tuple[str, Path]]) -> Iterator[tuple[str, int, bytes]]:
    # What its disk cannot read is in the copy as zeros, as a daemon takes it, and is reported.
    disk = SystemDisk()
    for name, path in paths:
        # It has moved on: what a daemon removes it has stored elsewhere.
        with suppress(FileNotFoundError):
            found = path.stat()
            yield name, stat.S_IMODE(found.st_mode), disk.read(path, 0, found.st_size)


def _paths(state_dir: Path, place: Path) -> Iterator[tuple[str, Path]]:
    """The files at a place that a backup holds, in the order of their names."""
    try:
        kind = place.lstat().st_mode
    except FileNotFoundError:
        return
    name = place.relative_to(state_dir).as_posix()
    if _is_left_out(name):
        return
    if stat.S_ISDIR(kind):
        try:
            within = sorted(place.iterdir())
        except FileNotFoundError:
            return
        except PermissionError as error:
            raise CommandFailed(
                f"state_dir: {error.filename} cannot be read; run this as a user who may, such as the daemon's"
            ) from None
        for path in within:
            yield from _paths(state_dir, path)
    elif stat.S_ISREG(kind):
        yield name, place


def _is_left_out(name: str) -> bool:
    path = PurePosixPath(name)
    return (
        path.parts[:1] in ((RESTORING,), ("postgresql",))
        or (len(path.parts) == 1 and path.name.startswith("postgresql."))
        or path.name == "lock"
        or name in (TAKING, TAKEN)
        or path.suffix in (".lock", ".log", ".partial", ".part")
    )

"""Refusing a state folder with what nobody would commit: of groups that are not configured, or in an old format."""

from collections.abc import Collection, Iterator
from pathlib import Path

from daemon.core.outcome import CommandFailed, reason_of
from daemon.core.outside import Disk
from daemon.core.outside.disk import Contents
from daemon.pipeline.dead_letters import pending_readings
from daemon.pipeline.files.acknowledged import read_acknowledged
from daemon.pipeline.files.format import counted
from daemon.pipeline.files.identity import read_ids
from daemon.pipeline.files.segment import head_of, paths_in, whole_records
from daemon.pipeline.log.log import INTAKE, readings_in


def unknown_groups(state_dir: Path, names: Collection[str], disk: Disk) -> list[tuple[Path, int]]:
    """The folders of other groups than these, with how many readings each holds.

    Logs, dead letters, and what an earlier version left.

    Nothing is locked, and no database is asked: it may have some of them.

    Raises:
        OSError: they cannot be read.
    """
    before = ((folder, readings_left(folder, disk)) for folder in _others(state_dir / FOLDER, names, disk))
    letters = ((folder, pending_readings(folder, disk)) for folder in _others(state_dir / "dead-letters", names, disk))
    logs = ((folder, readings_in(folder, disk)) for folder in _others(state_dir / INTAKE, names, disk))
    return [(folder, readings) for folder, readings in (*before, *logs, *letters) if readings]


def refuse_unknown_groups(state_dir: Path, names: Collection[str], disk: Disk) -> None:
    """See that nothing is left of other groups than these.

    Raises:
        CommandFailed: something is; the message names the folders, and what to do.
        OSError: they cannot be read.
    """
    found = unknown_groups(state_dir, names, disk)
    if found:
        what = "; ".join(f"{folder} holds {readings:,} readings" for folder, readings in found)
        groups = ", ".join(sorted({repr(folder.name) for folder, _ in found}))
        raise CommandFailed(
            f"{what}, and the configuration has no such group: add {groups} again, as it was, and run the daemon until"
            " all is committed (`triggerlog dead-letters` for what was rejected), or move the folder away"
        )


def _others(folder: Path, names: Collection[str], disk: Disk) -> Iterator[Path]:
    return (folder / name for name in disk.names(folder) if name not in names)


FOLDER = "journal"
ENDING = ".journal"


def refuse_earlier_version(state_dir: Path, group: str, disk: Disk) -> None:
    """See that no earlier version left closed blocks of a group that its database lacked.

    Raises:
        CommandFailed: it did, or the folder cannot be read.
    """
    folder = state_dir / FOLDER / group
    try:
        left = readings_left(folder, disk)
    except OSError as error:
        raise CommandFailed(f"{folder} cannot be used: {reason_of(error)}") from None
    if left:
        raise CommandFailed(
            f"{folder} holds {left:,} readings that an earlier version of triggerlog had not committed, and this one"
            " does not read them: run that version with the database until all is committed, stop it, and start this"
            " one; or move the folder away"
        )


def readings_left(folder: Path, disk: Disk) -> int:
    """Count the readings that an earlier version kept beyond what its database acknowledged; raises OSError."""
    noted = read_acknowledged(folder, disk)
    words = read_ids(folder, disk)
    is_known = noted.journal in (*words[:1], *words[2:])
    acknowledged = noted.sequence if is_known else 0
    return sum(_readings_in(path, acknowledged, disk) for path in paths_in(disk, folder, ENDING))


def _readings_in(path: Path, acknowledged: int, disk: Disk) -> int:
    data, found = Contents(disk, path), 0
    head = head_of(data)
    for header, _, body in whole_records(data, 0 if head is None else head.nbytes):
        if header.sequence > acknowledged:
            _, readings, aside = counted(data[body : body + header.length])
            found += readings + aside
    return found

"""What the state folder holds of groups that the configuration lacks: nobody would ever commit it."""

from collections.abc import Collection, Iterator
from pathlib import Path

from daemon.core.outcome import CommandFailed
from daemon.core.outside import Disk
from daemon.pipeline.dead_letters.left import pending_readings
from daemon.pipeline.log.log import INTAKE, readings_in
from daemon.pipeline.recovery.earlier_version import FOLDER, readings_left


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

"""Closed blocks that an earlier version left in a state folder, in a journal of their own: nobody reads it now."""

from pathlib import Path

from daemon.core.outcome import CommandFailed, reason_of
from daemon.core.outside import Disk
from daemon.core.outside.disk import Contents
from daemon.pipeline.files.acknowledged import read_acknowledged
from daemon.pipeline.files.format import counted
from daemon.pipeline.files.identity import read_ids
from daemon.pipeline.files.segment import head_of, paths_in, whole_records

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

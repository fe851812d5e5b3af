"""What a journal holds that nobody has open, beyond what the database has."""

from pathlib import Path

from daemon.core.outside import Disk
from daemon.core.outside.disk import Contents
from daemon.pipeline.journal.format import Head, counted
from daemon.pipeline.journal.identity import read_ids
from daemon.pipeline.journal.segment import head_of, paths_in, whole_records
from schemas.batch import JournalPosition


def held_by(folder: Path, head: Head | None, position: JournalPosition, disk: Disk) -> int:
    """Up to which number a database at this position has the records of a segment with this head; raises OSError."""
    identity, _, *former = read_ids(folder, disk) or (0, 0)
    ids = {identity, *former}
    return position.sequence if head is not None and head.journal in ids and position.journal in ids else 0


def readings_left(folder: Path, position: JournalPosition, disk: Disk) -> int:
    """How many readings a journal that nobody has open holds beyond this position; raises OSError."""
    left = 0
    for path in paths_in(disk, folder):
        data = Contents(disk, path)
        held = held_by(folder, head_of(data), position, disk)
        for header, _, body in whole_records(data, 0):
            if header.sequence > held:
                left += sum(counted(data[body : body + header.length])[1:])
    return left

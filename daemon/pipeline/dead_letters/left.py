"""What the dead letters hold of a group that nobody has open."""

from pathlib import Path

from daemon.core.outside import Disk
from daemon.pipeline.dead_letters.format import ENDING, scan
from daemon.pipeline.dead_letters.marks import Marks
from daemon.pipeline.files.segment import paths_in


def pending_readings(folder: Path, disk: Disk) -> int:
    """How many readings a folder holds that are not committed, as far as it knows, nor discarded; raises OSError."""
    found = [letter for path in paths_in(disk, folder, ENDING) for letter in scan(disk, path, None).letters]
    newest = {letter.origin: letter for letter in found}
    marks = Marks(folder, disk)
    marks.load()
    return sum(letter.readings for letter in newest.values() if not marks.cover(letter))

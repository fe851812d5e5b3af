"""What the database acknowledged last, noted in the state folder.

A database that is put back to an older state while no daemon runs shows by nothing else, once the journal has let go of
what was committed.
"""

import contextlib
from collections.abc import Collection
from pathlib import Path

from daemon.core.outside import Disk, Outside
from schemas.batch import JournalPosition

ACKNOWLEDGED = "acknowledged"
"""File with the journal's id, the number, and the account (triggers, readings) of a commit, in decimal."""

FILE_MOST = 4096
"""Bytes of the file that are read."""

NOWHERE = JournalPosition(sequence=0)


def read_acknowledged(folder: Path, disk: Disk) -> JournalPosition:
    """The commit that is noted in a folder; at the number 0 where none is. Raises OSError."""
    try:
        words = disk.read(folder / ACKNOWLEDGED, 0, FILE_MOST).split()
    except FileNotFoundError:
        return NOWHERE
    if len(words) != 4 or not all(word.isdigit() for word in words):
        return NOWHERE
    journal, sequence, triggers, readings = map(int, words)
    return JournalPosition(sequence=sequence, triggers=triggers, readings=readings, journal=journal)


def readings_behind(noted: JournalPosition, position: JournalPosition, ids: Collection[int]) -> int:
    """How many readings a database at this position has less than the commit that is noted.

    ids: those of the journal beside the note. Of a position under another id only the account can be compared: another
    daemon went on from the commit that is noted, or from an older one.
    """
    is_ours = position.journal in ids or position.journal == noted.journal
    if is_ours and position.sequence >= noted.sequence:
        return 0
    return max(0, noted.readings - position.readings)


class Acknowledged:
    """Keeps the note of one group: it may be behind the database, and never tells of what that did not have."""

    def __init__(self, folder: Path, outside: Outside) -> None:
        self.path = folder / ACKNOWLEDGED
        self._folder = folder
        self._disk, self._workers = outside.disk, outside.workers
        self._newest: JournalPosition | None = None
        self._written: JournalPosition | None = None

    def read(self) -> JournalPosition:
        """What is noted; at the number 0 where nothing is. Raises OSError."""
        return read_acknowledged(self._folder, self._disk)

    def note(self, position: JournalPosition) -> None:
        """The database acknowledged a commit at this position: it is noted with the next `write`."""
        self._newest = position

    def write(self) -> None:
        """Put on the disk what was acknowledged since; raises OSError."""
        newest = self._newest
        if newest is not None and newest is not self._written:
            words = " ".join(map(str, (newest.journal, newest.sequence, newest.triggers, newest.readings)))
            self._disk.make_folder(self._folder)
            self._disk.replace(self.path, f"{words}\n".encode())
            self._written = newest

    async def end(self) -> None:
        """Write for the last time; where the disk fails, the note that is there stays: it says less."""
        with contextlib.suppress(OSError):
            await self._workers.call(self.write)

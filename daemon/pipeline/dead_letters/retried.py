"""What of the letters of a folder the database has, by its position, by the mark in the folder, and by a note.

The position alone does not tell whether it was further once: a database that was put back to an older state lacks
letters that it had taken, and had acknowledged.
"""

from collections.abc import Collection, Iterable
from pathlib import Path

from daemon.core.outside import Outside
from daemon.pipeline.dead_letters.format import Letter
from daemon.pipeline.dead_letters.marks import RETRIED, Marks
from daemon.pipeline.journal import Acknowledged
from daemon.pipeline.journal.acknowledged import NOWHERE, readings_behind
from schemas.batch import JournalPosition


class Retried:
    """Sets the mark of a folder of dead letters up to which they were retried, and says what the database has lost.

    group: checksum of the group's description, see `Marks`.
    """

    def __init__(self, folder: Path, outside: Outside, marks: Marks, group: int) -> None:
        self._acknowledged = Acknowledged(folder, outside)
        self._noted = NOWHERE
        self._marks = marks
        self._group = group
        self._behind = self._upto = 0

    def load(self) -> None:
        """Read what the database acknowledged last; raises OSError."""
        self._noted = self._acknowledged.read()

    def is_behind(self, found: JournalPosition, ids: Collection[int]) -> bool:
        """Whether a database at this position has less than it acknowledged; ids: those of the folder."""
        return readings_behind(self._noted, found, ids) > 0

    def compare(self, found: JournalPosition, ids: Collection[int]) -> None:
        """Set the mark by where the database is; ids: those of the folder.

        Where it was put back, the mark is, too. Of a position under another id nobody knows what of this folder it has.
        """
        self._behind, self._upto = readings_behind(self._noted, found, ids), self._noted.sequence
        is_ours = found.journal in ids
        if self._behind and (is_ours or not found.sequence):
            self._marks.take_back(RETRIED, self._group, found.sequence)
        else:
            self._marks.set(RETRIED, self._group, found.sequence if is_ours else 0)

    def take_lost(self, pending: Iterable[Letter]) -> int:
        """How many readings the database lacks, by the last comparison, of which no letter is pending; told once."""
        behind, self._behind = self._behind, 0
        return max(0, behind - sum(each.readings for each in pending if each.serial <= self._upto))

    def note(self, position: JournalPosition) -> None:
        """The database is there; returns when the disk knows. Raises OSError."""
        # Before the mark: a note behind that would not tell that the database has fallen behind it.
        self._acknowledged.note(position)
        self._acknowledged.write()
        self._noted = position
        self._marks.write(RETRIED)

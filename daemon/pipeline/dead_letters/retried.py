"""What of the letters of a folder the database has, by its position, by the mark in the folder, and by a note.

The position alone does not tell whether it was further once: a database that was put back to an older state lacks
letters that it had taken, and had acknowledged.
"""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from backends.base import Store
from daemon.core.outside import Outside
from daemon.pipeline.dead_letters.format import Letter
from daemon.pipeline.dead_letters.marks import RETRIED, Marks
from daemon.pipeline.files import Acknowledged
from daemon.pipeline.files.acknowledged import NOWHERE, readings_behind
from schemas.batch import JournalPosition, Stream
from schemas.queries import LedgerTail
from schemas.readings import InstrumentGroup


async def position_of_letters(store: Store, group: InstrumentGroup) -> JournalPosition | None:
    """Where the database is in the dead letters of a group; at the number 0 where it has none of them.

    None where it has rows of the group and no position at all: an operator removed these, or gave the logger another
    name, and nobody knows. Raises StoreUnavailable.
    """
    found = await store.position(group.name, Stream.DEAD_LETTERS)
    if found is not None:
        return found
    if await store.position(group.name) is None and len(await store.ask(LedgerTail(group=group, most=1))):
        return None
    return NOWHERE


class PutBack(NamedTuple):
    """What came of a database that was put back: readings that are lost, and readings that are pending again."""

    lost: int = 0
    pending: int = 0


class Retried:
    """Sets the mark of a folder of dead letters up to which they were retried, and says what the database has lost.

    group: checksum of the group's description, see `Marks`.
    """

    def __init__(self, folder: Path, outside: Outside, marks: Marks, group: int) -> None:
        self._acknowledged = Acknowledged(folder, outside)
        self._noted = self._on_disk = NOWHERE
        self._marks = marks
        self._group = group
        self._behind = 0

    def load(self) -> None:
        """Read what the database acknowledged last; raises OSError."""
        self._noted = self._on_disk = self._acknowledged.read()

    def is_behind(self, found: JournalPosition, ids: Collection[int]) -> bool:
        """Whether a database at this position was further, by the note or by the mark; ids: those of the folder."""
        is_below = self._decides(found, ids) and found.sequence < self._marks.upto(RETRIED, self._group)
        return is_below or readings_behind(self._noted, found, ids) > 0

    def compare(self, found: JournalPosition, ids: Collection[int]) -> None:
        """Set the mark by where the database is.

        Of a position under another id nobody knows what of this folder the database has: the mark stays.
        """
        self._behind = readings_behind(self._noted, found, ids)
        if self._decides(found, ids):
            self._marks.put(RETRIED, self._group, found.sequence)

    def _decides(self, found: JournalPosition, ids: Collection[int]) -> bool:
        return found.journal in ids or (not found.sequence and self._noted.sequence > 0)

    def lost(self, pending: Iterable[Letter]) -> int:
        """How many readings the database lacks, by the last comparison, of which no letter is pending."""
        upto = self._noted.sequence
        return max(0, self._behind - sum(each.readings for each in pending if each.serial <= upto))

    def settle(self, found: JournalPosition | None, ids: Collection[int]) -> None:
        """What the database has lost by this position is told: from now on it is there.

        found: as `position_of_letters` gives it; where nobody knows, the next position is compared with nothing.
        """
        if found is None:
            self.take(NOWHERE)
        elif self.is_behind(found, ids) or (found.journal in ids and found.sequence > self._noted.sequence):
            self.take(found)

    def take(self, position: JournalPosition) -> None:
        """The database is there; it is noted with the next `write`."""
        self._noted = position

    @property
    def is_written(self) -> bool:
        """Whether the disk has note and mark."""
        return self._noted == self._on_disk and self._marks.is_written(RETRIED)

    def write(self) -> None:
        """Put note and mark on the disk; raises OSError."""
        noted = self._noted
        # First what says less: where the other is not written, the note tells of the difference, and not the mark.
        is_back = noted.sequence < self._on_disk.sequence
        if is_back:
            self._marks.write(RETRIED)
        self._acknowledged.note(noted)
        self._acknowledged.write()
        if not is_back:
            self._marks.write(RETRIED)
        self._on_disk = noted

"""The segments of other journals in a journal's folder: read, and removed, as they were found."""

from collections.abc import Iterator

from daemon.core.outside import Disk
from daemon.pipeline.journal.deferred import Deferred
from daemon.pipeline.journal.found import journal_of
from daemon.pipeline.journal.sealed import Sealed
from daemon.pipeline.journal.segment import Scan
from schemas.batch import ClosedBlock


class Others:
    """What was found of other journals, in the order of the names; iterating gives what each segment holds."""

    def __init__(self, disk: Disk, sealed: Sealed, deferred: Deferred) -> None:
        self._disk = disk
        self._deferred = deferred
        self._sealed = sealed
        self._segments: list[Scan] = []
        self._unsure: list[Scan] = []  # of these, what is not surely on the disk

    def __iter__(self) -> Iterator[Scan]:
        """What each segment holds."""
        return iter(self._segments)

    def take(self, segments: list[Scan]) -> None:
        """Take what was found."""
        self._segments = segments

    def doubt(self) -> None:
        """Only what a record says was synced when it was written is on the disk; the rest is written anew."""
        for each in self._segments:
            known = max(other.synced for other in self._segments if journal_of(other) == journal_of(each))
            if int(each.records["sequence"].max(initial=0)) > known:
                self._unsure.append(each)

    @property
    def is_durable(self) -> bool:
        """Whether all of them are on the disk."""
        return not self._unsure

    def sync(self) -> None:
        """Write anew what is not surely on the disk; raises OSError where something is not written yet."""
        while self._unsure:
            path = self._unsure[-1].path
            self._deferred.release(path)
            self._disk.replace(path, self._disk.read(path, 0, self._unsure[-1].nbytes))
            self._unsure.pop()

    def read(self) -> Iterator[ClosedBlock]:
        """Read their blocks, each journal's in order; raises OSError."""
        for each in self._segments:
            yield from self._sealed.read_each(each.path, each.records)

    def drop(self) -> None:
        """Remove them; raises OSError where some are still there."""
        self._unsure.clear()
        while self._segments:
            self._deferred.release(self._segments[-1].path)
            self._disk.remove(self._segments[-1].path)
            self._segments.pop()

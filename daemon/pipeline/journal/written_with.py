"""What the processes were set to that wrote what a journal holds, noted beside it.

A database that acknowledged asynchronously may lose it after a change to synchronous commits, too, and triggers that
closed within a large window are further apart in the journal than a smaller one tells.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from daemon.core.outside import Disk
from schemas.batch import Durability

WRITTEN_WITH = "written-with"
"""File with the durability and the window, in triggers, of a group."""

FILE_MOST = 4096
"""Bytes of the file that are read."""


@dataclass(frozen=True, kw_only=True)
class WrittenWith:
    """The weakest durability, and the largest window."""

    durability: Durability
    window: int

    @classmethod
    def read(cls, folder: Path, disk: Disk) -> Self | None:
        """Return what is noted in a folder, the weakest where that cannot be read, None where nothing is.

        Raises:
            OSError: the disk failed.
        """
        try:
            words = disk.read(folder / WRITTEN_WITH, 0, FILE_MOST).decode("ascii", "replace").split()
        except FileNotFoundError:
            return None
        if len(words) != 2 or words[0] not in {each.value for each in Durability} or not words[1].isdecimal():
            return cls(durability=Durability.ASYNC, window=0)
        return cls(durability=Durability(words[0]), window=int(words[1]))

    def write(self, folder: Path, disk: Disk) -> None:
        """Note it. Raises OSError."""
        disk.replace(folder / WRITTEN_WITH, f"{self.durability.value} {self.window}\n".encode())

    def joined(self, before: Self | None) -> Self:
        """These settings and earlier ones, as far as they matter."""
        if before is None:
            return self
        is_async = Durability.ASYNC in (self.durability, before.durability)
        return type(self)(
            durability=Durability.ASYNC if is_async else Durability.SYNC, window=max(self.window, before.window)
        )

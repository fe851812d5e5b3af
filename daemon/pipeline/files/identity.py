"""Which folder a number belongs to: its id, and the numbers that it gave out."""

from collections.abc import Collection
from pathlib import Path

from daemon.core.outside import Disk, Outside

ID = "id"
"""File with the id, the first number that was never given out, and the ids that the folder had before, in decimal."""

AHEAD = 2**32
"""Numbers that are taken at a time, so that the file is written once a start: years of blocks, and of starts."""

FORMER_MOST = 256
"""Former ids that are known in any case: a commit of the last process may still be under way, and is then of its id."""

FILE_MOST = 2**24
"""Bytes of the file that are read."""


def read_ids(folder: Path, disk: Disk) -> list[int]:
    """What the file says: the id, the next number, the former ids; nothing where nobody wrote it. Raises OSError."""
    try:
        words = disk.read(folder / ID, 0, FILE_MOST).split()
    except FileNotFoundError:
        return []
    return [int(word) for word in words] if len(words) >= 2 and all(word.isdigit() for word in words) else []


class Identity:
    """A folder's id, and which numbers may be given out in it. No number is given out twice, whatever is lost.

    former: the ids that it had before, the oldest first: what is under these is its own.
    """

    def __init__(self, folder: Path, outside: Outside) -> None:
        self.id = 0
        self.next = 1
        self.former: tuple[int, ...] = ()
        self._granted = 0  # numbers below this one the disk knows as given out under the id
        self._folder = folder
        self._outside = outside

    @property
    def ids(self) -> frozenset[int]:
        """The id, and the former ones."""
        return frozenset((self.id, *self.former)) - {0}

    def load(self) -> None:
        """Read it; without the file, or with one that nobody wrote, the folder has none (0). Raises OSError."""
        found = read_ids(self._folder, self._outside.disk)
        if found:
            self.id, self.next, *former = found
            self.former = tuple(former)

    def choose(self) -> None:
        """Give a folder an id that has none."""
        while not self.id:
            self.id = self._outside.rng.getrandbits(63)

    def succeed(self, wanted: Collection[int]) -> None:
        """Take another id, which the disk knows with the next number that is taken.

        wanted: of the former ids, those that are not to be forgotten, beside the newest.
        """
        ids = (*self.former, self.id) if self.id else ()
        self.former = tuple(each for each in ids[:-FORMER_MOST] if each in wanted) + ids[-FORMER_MOST:]
        self.id = self._granted = 0
        self.choose()

    def renew(self) -> None:
        """Take another id, forget the former ones, and go on with the numbers; the disk knows with the next `take`."""
        self.id, self.former, self._granted = 0, (), 0
        self.choose()

    def take(self, number: int) -> None:
        """Take a number, and all below it; when it returns the disk knows them, and the id. Raises OSError."""
        if number >= self._granted:
            after = max(self.next, number + AHEAD)
            self._write(after)
            self.next = self._granted = after

    def _write(self, following: int) -> None:
        words = " ".join(map(str, (self.id, following, *self.former)))
        self._outside.disk.replace(self._folder / ID, f"{words}\n".encode())

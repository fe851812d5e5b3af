"""Which folder a number belongs to: its id, and the numbers that it gave out."""

from pathlib import Path

from daemon.core.outside import Outside

ID = "id"
"""File with the id and the first number that was never given out, in decimal."""

AHEAD = 2**32
"""Numbers that are taken at a time, so that the file is written once a start: years of blocks, and of starts."""


class Identity:
    """A folder's id, and which numbers may be given out in it. No number is given out twice, whatever is lost."""

    def __init__(self, folder: Path, outside: Outside) -> None:
        self.id = 0
        self.next = 1
        self._path = folder / ID
        self._outside = outside

    def load(self) -> None:
        """Read it; without the file, or with one that nobody wrote, the folder has none (0). Raises OSError."""
        try:
            words = self._outside.disk.read(self._path, 0, 100).split()
        except FileNotFoundError:
            return
        if len(words) == 2 and all(word.isdigit() for word in words):
            self.id, self.next = map(int, words)

    def choose(self) -> None:
        """Give a folder an id that has none."""
        while not self.id:
            self.id = self._outside.rng.getrandbits(63)

    def renew(self) -> None:
        """Take another id, and go on with the numbers; when it returns the disk knows. Raises OSError."""
        before, self.id = self.id, 0
        self.choose()
        try:
            self._outside.disk.replace(self._path, f"{self.id} {self.next}\n".encode())
        except OSError:
            self.id = before
            raise

    def take(self, number: int) -> None:
        """Take a number, and all below it; when it returns the disk knows. Raises OSError."""
        if number >= self.next:
            after = number + AHEAD
            self._outside.disk.replace(self._path, f"{self.id} {after}\n".encode())
            self.next = after

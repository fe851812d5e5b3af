"""Marks: up to which serials the letters of a folder were retried, and discarded."""

from pathlib import Path

from daemon.core.outside import Disk
from daemon.pipeline.dead_letters.format import Letter

RETRIED = "retried"
"""File that says up to which serial the database is known to have what was retried, for who does not ask it."""

DISCARDED = "discarded"
"""File that says up to which serial all was discarded."""

MARK_BYTES = 2**16


class Marks:
    """Up to which serials letters were retried, and discarded: by the checksum of the group's description.

    By that since a database has the letters of one layout, and only those are discarded that can be read.
    """

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk
        self._upto: dict[str, dict[int, int]] = {RETRIED: {}, DISCARDED: {}}
        self._on_disk: dict[str, dict[int, int]] = {RETRIED: {}, DISCARDED: {}}

    @property
    def next(self) -> int:
        """The first serial above all of them."""
        return max((serial + 1 for upto in self._upto.values() for serial in upto.values()), default=1)

    def load(self) -> None:
        """Read the files; what is not there, or not whole, says nothing. Raises OSError."""
        for name in self._upto:
            try:
                lines = self._disk.read(self._folder / name, 0, MARK_BYTES).decode().splitlines()
                self._upto[name] = {int(group): int(serial) for group, serial in map(str.split, lines)}
            except (FileNotFoundError, ValueError):
                self._upto[name] = {}
            self._on_disk[name] = dict(self._upto[name])

    def set(self, name: str, group: int, serial: int) -> None:
        """Take note of a serial; it is not in the file yet."""
        self._upto[name][group] = max(self.upto(name, group), serial)

    def put(self, name: str, group: int, serial: int) -> None:
        """Take note of a serial, whatever was noted before; it is not in the file yet."""
        self._upto[name][group] = serial

    def upto(self, name: str, group: int) -> int:
        """The serial that is noted; 0 where none is."""
        return self._upto[name].get(group, 0)

    def is_written(self, name: str) -> bool:
        """Whether the file is known to say the same."""
        return self._on_disk.get(name) == self._upto[name]

    def write(self, name: str) -> None:
        """Write a file; when it returns the disk has it. Raises OSError: the file may say this, or what it said."""
        upto = dict(self._upto[name])
        lines = [f"{group} {serial}\n" for group, serial in upto.items()]
        self._on_disk.pop(name, None)
        self._disk.replace(self._folder / name, "".join(lines).encode())
        self._on_disk[name] = upto

    def cover(self, letter: Letter) -> bool:
        """Whether a letter was retried or discarded."""
        names = [DISCARDED] if letter.is_aside else [DISCARDED, RETRIED]
        return any(letter.serial <= self.upto(name, letter.group) for name in names)

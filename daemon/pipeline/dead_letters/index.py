"""The letters of a folder in memory: which are pending, what they are parts of, and which files hold them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from daemon.pipeline.closed_blocks import Key
from daemon.pipeline.dead_letters.format import Found, Letter
from daemon.pipeline.files import Amount


@dataclass(kw_only=True)
class LetterFile:
    """A file of letters, in their order. head: bytes before the first. gone: letters to be cut out of it."""

    nbytes: int
    head: int
    letters: list[Letter] = field(default_factory=list)
    gone: list[Letter] = field(default_factory=list)


class Index:
    """The letters of a folder, and its files; nothing here reads the disk.

    amount: what is pending. aside_readings: those of it that assembly set aside.
    pending, aside: by serial, ascending, all that are pending, and those of them that assembly set aside.
    of_key: those that are pending of a trigger, or that came late for one. of_block: by number, the keys of what was
    kept of a block of this process, whatever became of it.
    newest_discarded: by run, the last of the triggers that were discarded.
    """

    def __init__(self, found: Sequence[Found] = ()) -> None:
        self.amount = Amount()
        self.aside_readings = 0
        self.pending: dict[int, Letter] = {}
        self.aside: dict[int, Letter] = {}
        self.of_key: dict[Key, list[Letter]] = {}
        self.of_block: dict[int, set[Key]] = {}
        self.files: dict[Path, LetterFile] = {}
        self.newest_discarded: dict[int, int] = {}
        self._unknown_bytes = sum(each.nbytes for each in found if each.is_other or each.is_earlier)
        for each in found:
            if not (each.is_other or each.is_earlier):
                self.files[each.path] = LetterFile(nbytes=each.nbytes, head=each.head)
                for letter in each.letters:
                    self.remember(letter)

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return self._unknown_bytes + sum(file.nbytes for file in list(self.files.values()))

    def remember(self, letter: Letter) -> None:
        """Take up a letter of a file that is known."""
        self.files[letter.path].letters.append(letter)
        if letter.number:
            self.of_block.setdefault(letter.number, set()).add(letter.key)
        self._add(letter)

    def _add(self, letter: Letter) -> None:
        self.pending[letter.serial] = letter
        if letter.is_aside:
            self.aside[letter.serial] = letter
            self.aside_readings += letter.readings
        else:
            self.of_key.setdefault(letter.key, []).append(letter)
        self.amount.change(letter.triggers, letter.readings, 1)

    def remove(self, letter: Letter) -> None:
        """A letter is pending no more: it is to be cut out of its file."""
        self._forget(letter)
        self.files[letter.path].gone.append(letter)

    def restore(self, letters: Sequence[Letter]) -> None:
        """Those of these, all that were pending, that could not be cut out are pending again."""
        for file in self.files.values():
            back = [letter for letter in file.gone if letter in letters]
            file.gone = [letter for letter in file.gone if letter not in back]
            for letter in back:
                self._add(letter)

    def lose(self, letter: Letter) -> None:
        """A letter that is pending cannot be read any more: its bytes stay in the file."""
        self._forget(letter)
        self.note_discarded(letter.key)  # the database never gets it

    def _forget(self, letter: Letter) -> None:
        del self.pending[letter.serial]
        if self.aside.pop(letter.serial, None) is not None:
            self.aside_readings -= letter.readings
        else:
            same = self.of_key[letter.key]
            same.remove(letter)
            if not same:
                del self.of_key[letter.key]
        self.amount.change(-letter.triggers, -letter.readings, -1)

    def note_discarded(self, key: Key) -> None:
        """What the next blocks say of this trigger is not so: something of it is gone."""
        run, trigger = key
        self.newest_discarded[run] = max(trigger, self.newest_discarded.get(run, 0))

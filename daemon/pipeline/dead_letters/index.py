"""What is known of the letters in a folder: which are pending, what they are parts of, and which segments hold them."""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from daemon.pipeline.closed_blocks import Key
from daemon.pipeline.dead_letters.format import Letter
from daemon.pipeline.files import Amount


@dataclass(kw_only=True)
class Segment:
    """A segment: its size, how many of its letters are pending, and by journal the last block that they were part of.

    has_more: it holds what cannot be read, and must not be removed with the rest.
    """

    nbytes: int
    pending: int = 0
    last: dict[int, int] = field(default_factory=dict)
    has_more: bool = False


class Index:
    """The letters of a folder, and its segments; nothing here reads the disk.

    amount: what is pending. aside_readings: those of it that assembly set aside.
    pending, aside: by serial, ascending, all that are pending, and those of them that assembly set aside.
    of_key: those that are pending of a trigger, or that came late for one. of_block: by journal and number, the keys of
    what was kept of a block, whatever became of it.
    newest_discarded: by run, the last of the triggers that were discarded.
    """

    def __init__(self) -> None:
        self.amount = Amount()
        self.aside_readings = 0
        self.pending: dict[int, Letter] = {}
        self.aside: dict[int, Letter] = {}
        self.of_key: dict[Key, list[Letter]] = {}
        self.of_block: dict[tuple[int, int], set[Key]] = {}
        self.segments: dict[Path, Segment] = {}
        self.newest_discarded: dict[int, int] = {}

    def clear(self) -> None:
        """Forget all but what was discarded: the folder is looked through again."""
        self.amount, self.aside_readings = Amount(), 0
        for each in (self.pending, self.aside, self.of_key, self.of_block, self.segments):
            each.clear()

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.nbytes for segment in self.segments.values())

    def remember(self, letter: Letter, *, pending: bool) -> None:
        """Take up a letter of a segment that is known."""
        last = self.segments[letter.path].last
        last[letter.journal] = max(last.get(letter.journal, 0), letter.number)
        self.of_block.setdefault((letter.journal, letter.number), set()).add(letter.key)
        if pending:
            self.segments[letter.path].pending += 1
            self.pending[letter.serial] = letter
            if letter.is_aside:
                self.aside[letter.serial] = letter
                self.aside_readings += letter.readings
            else:
                self.of_key.setdefault(letter.key, []).append(letter)
            self.amount.change(letter.triggers, letter.readings, 1)

    def forget(self, letter: Letter) -> None:
        """A letter is pending no more."""
        del self.pending[letter.serial]
        if self.aside.pop(letter.serial, None) is not None:
            self.aside_readings -= letter.readings
        self.segments[letter.path].pending -= 1
        same = self.of_key.get(letter.key, [])
        if letter in same:
            same.remove(letter)
        if not same:
            self.of_key.pop(letter.key, None)
        self.amount.change(-letter.triggers, -letter.readings, -1)

    def lose(self, letter: Letter) -> None:
        """A letter that is pending cannot be read any more: its segment stays."""
        self.segments[letter.path].has_more = True
        self.forget(letter)
        self.note_discarded(letter.key)  # the database never gets it

    def note_discarded(self, key: Key) -> None:
        """What the next blocks say of this trigger is not so: something of it is gone."""
        run, trigger = key
        self.newest_discarded[run] = max(trigger, self.newest_discarded.get(run, 0))

    def done(self, journal: int, position: int, but: Container[Path]) -> Iterator[Path]:
        """The segments in which nothing is wanted once the database has the blocks of a journal up to this number.

        but: those that are wanted all the same.
        """
        for path, segment in self.segments.items():
            is_wanted = segment.pending or segment.has_more or path in but
            if not is_wanted and segment.last.get(journal, 0) <= position:
                yield path

    def drop(self, path: Path) -> None:
        """A segment is gone."""
        del self.segments[path]
        if not self.segments:
            self.of_block.clear()

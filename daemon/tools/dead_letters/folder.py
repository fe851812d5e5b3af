"""The dead letters of a group as a command reads them, to which a daemon may write at the same time."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from daemon.core.outside import Outside
from daemon.pipeline.dead_letters import DeadLetters, Found, Letter
from daemon.pipeline.files.format import BadRecord
from schemas.batch import ClosedBlock
from schemas.readings import InstrumentGroup

OUTSIDE = Outside.real()

LOOKS = 5
"""How often a folder is looked through before what changes between two looks counts as it is."""

AGAIN_S = 0.2
"""As long as a daemon takes for writing a letter, and more."""


def look(folder: Path, group: InstrumentGroup) -> tuple[DeadLetters, list[Found]]:
    """Look through a folder; return also what of it cannot be read.

    A letter that a daemon is writing is no whole one yet, and a segment may go while the folder is looked through: it
    is looked through again then.

    Raises:
        OSError: the folder cannot be read.
    """
    before: list[tuple[Path, int]] = []
    for left in reversed(range(LOOKS)):
        letters = DeadLetters(folder, group, OUTSIDE)
        try:
            found = letters.look()
        except FileNotFoundError:
            if not left:
                raise
        else:
            damaged = [(each.path, each.damaged) for each in found if each.damaged]
            if not left or not damaged or damaged == before:
                break
            before = damaged
        time.sleep(AGAIN_S)
    return letters, found


@dataclass(kw_only=True)
class Taken:
    """What was read of the letters that were listed.

    letters: that were read, with so many readings. done: that were committed or discarded meanwhile. missing: those
    that can be read no more.
    """

    letters: int = 0
    readings: int = 0
    done: int = 0
    missing: list[Letter] = field(default_factory=list)


def read_each(letters: DeadLetters, group: InstrumentGroup, taken: Taken) -> Iterator[tuple[Letter, ClosedBlock]]:
    """Read all that is pending, each once, where it lies by now: a file is written again without what is gone.

    taken: told what becomes of them.

    Raises:
        OSError: the folder cannot be read.
    """
    listed = letters.pending
    for _ in range(LOOKS):
        left: list[Letter] = []
        for letter in listed:
            try:
                block = letters.read(letter)
            except (FileNotFoundError, BadRecord):
                left.append(letter)
            else:
                taken.letters += 1
                taken.readings += letter.readings
                yield letter, block
        if not left:
            return
        letters, found = look(left[0].path.parent, group)
        damaged = {each.path for each in found if each.damaged}
        there = {letter.id: letter for letter in letters.pending}
        gone = [letter for letter in left if letter.id not in there]
        missing = [letter for letter in gone if letter.path in damaged]
        taken.missing += missing
        taken.done += len(gone) - len(missing)
        listed = [there[letter.id] for letter in left if letter.id in there]
    taken.missing += listed

"""What is read of the dead letters at a start: their readings may come again, and what is late for their triggers."""

from collections.abc import Iterable

from daemon.pipeline.dead_letters.folder import DeadLetters
from daemon.pipeline.dead_letters.format import Letter
from daemon.pipeline.fitting import count_fitting
from schemas.batch import ClosedBlock


def read_last(letters: DeadLetters, most: int) -> list[ClosedBlock]:
    """Read the letters that close the last triggers, at most so many, and all that came since.

    In the order of their origin, without what is damaged. What came late for a trigger is a letter of its own.

    Raises:
        OSError: the disk failed.
    """
    # One that has made way lies behind what belongs to its trigger.
    by_origin = sorted(letters.to_retry, key=lambda letter: letter.origin)
    closing = [k for k, letter in enumerate(by_origin) if letter.triggers]
    first = closing[-most] if len(closing) > most else 0
    return _read(letters, by_origin[first:])


def read_newest(letters: DeadLetters, most_bytes: int) -> list[ClosedBlock]:
    """Read the newest of all that is pending, at most so many bytes, without what is damaged; raises OSError."""
    newest = list(reversed(letters.pending))
    return _read(letters, newest[: count_fitting((letter.end - letter.start for letter in newest), most_bytes)])


def _read(letters: DeadLetters, some: Iterable[Letter]) -> list[ClosedBlock]:
    return [block for block in map(letters.read_whole, some) if block is not None]

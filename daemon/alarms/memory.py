"""What the alarm board remembers over a restart of the daemon.

Without it alarms are shown in full again, which is the safe side.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field

from daemon.alarms.alarm import Severity
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.core.process.kept_file import KeptFile, Part, Remembered
from schemas.marks import Mark

FILE = "alarms.json"


class Acknowledged(Part):
    """An alarm as it was when somebody acknowledged it, at at_s; since_s: when it began (s since 1970, UTC)."""

    at_s: float
    since_s: float
    severity: Severity
    extent: float

    def moved(self, by_s: float) -> "Acknowledged":
        """The same at another time."""
        return self.model_copy(update={"at_s": self.at_s + by_s, "since_s": self.since_s + by_s})


class Shelf(Part):
    """Until when (s since 1970, UTC) an alarm is shelved, and how severe it was."""

    until_s: float
    severity: Severity

    def moved(self, by_s: float) -> "Shelf":
        """The same at another time."""
        return self.model_copy(update={"until_s": self.until_s + by_s})


class Marked(Part):
    """An alarm whose begin, since_s (s since 1970, UTC), was marked for these groups; None is for all."""

    since_s: float
    groups: tuple[str | None, ...]


class Memory(Remembered):
    """Acknowledgements, shelves, and what was marked, by the alarm's key, as at saved_s (s since 1970, UTC).

    marks: those that are to be made, and may have been.
    """

    version: Literal[1] = 1
    saved_s: float = 0.0
    acknowledged: dict[str, Acknowledged] = Field(default={})
    shelves: dict[str, Shelf] = Field(default={})
    marked: dict[str, Marked] = Field(default={})
    marks: tuple[Mark, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not (self.acknowledged or self.shelves or self.marked or self.marks)


class MemoryFile(KeptFile[Memory]):
    """Where a board's memory is kept, in the state folder."""

    def __init__(self, state_dir: Path, outside: Outside, events: Events) -> None:
        super().__init__(
            state_dir / FILE,
            Memory(),
            outside,
            events,
            unread="no alarm counts as acknowledged, shelved or marked",
            unwritten="a restart forgets what is acknowledged, shelved and marked",
        )

"""The log that keeps what comes, as a pipeline sees it."""

from collections.abc import Container
from typing import Protocol

from daemon.pipeline.log.keeper import LogState
from schemas.batch import JournalPosition


class Kept(Protocol):
    """The log of a group, from which a pipeline can begin again."""

    @property
    def stretches(self) -> Container[int]:
        """Sessions of which the log may hold something."""

    @property
    def state(self) -> LogState:
        """Return how far it is."""

    @property
    def is_full(self) -> bool:
        """Tell whether sources have to hold back."""

    def note_acknowledged(self, position: JournalPosition) -> None:
        """The database acknowledged a commit at this position."""

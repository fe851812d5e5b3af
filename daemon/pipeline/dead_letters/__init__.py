"""Dead letters: what the database rejected for good, on disk with the reason; `docs/journal.md` tells their format."""

from daemon.pipeline.dead_letters.folder import DeadLetters, folder_of
from daemon.pipeline.dead_letters.format import Found, Letter
from daemon.pipeline.dead_letters.retrying import Outcome, Retrying

__all__ = ["DeadLetters", "Found", "Letter", "Outcome", "Retrying", "folder_of"]

"""Dead letters: what the database rejected for good, on disk with the reason; `docs/journal.md` tells their format."""

from daemon.pipeline.dead_letters.folder import DeadLetters, folder_of, said_of
from daemon.pipeline.dead_letters.format import Found, Letter

__all__ = ["DeadLetters", "Found", "Letter", "folder_of", "said_of"]

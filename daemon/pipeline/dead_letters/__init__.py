"""Dead letters: what the database rejected for good, on disk with the reason; `docs/journal.md` describes their format.

`format` turns a letter into bytes and back, `folder` keeps them until they are committed or discarded, and `retrying`
offers them to the database again. What assembly set aside is for no database, and stays until it is discarded.
"""

from daemon.pipeline.dead_letters.folder import DeadLetters, folder_of
from daemon.pipeline.dead_letters.format import Found, Letter
from daemon.pipeline.dead_letters.retrying import Outcome, Retrying

__all__ = ["DeadLetters", "Found", "Letter", "Outcome", "Retrying", "folder_of"]

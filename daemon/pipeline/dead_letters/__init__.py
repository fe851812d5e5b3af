"""Dead letters: what the database rejected for good, on disk with the reason; `docs/journal.md` describes their format.

`format` turns a letter into bytes and back, `folder` keeps them until they are committed or discarded, and `retrying`
offers them to the database again. `aside` makes letters of what assembly set aside; they stay until they are discarded.
"""

from daemon.pipeline.dead_letters.aside import aside_parts
from daemon.pipeline.dead_letters.folder import DeadLetters, folder_of
from daemon.pipeline.dead_letters.format import Found, Letter, aside_key, key_of
from daemon.pipeline.dead_letters.retrying import Outcome, Retrying

__all__ = ["DeadLetters", "Found", "Letter", "Outcome", "Retrying", "aside_key", "aside_parts", "folder_of", "key_of"]

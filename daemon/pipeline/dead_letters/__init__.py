"""Dead letters: what the database rejected for good, on disk with the reason; `docs/log.md` describes their format.

`format` turns a letter into bytes and back. `folder` keeps them until they are committed or discarded: `writing`
appends them to files and cuts them out again, and `index` knows which are there. `retrying` offers them to the database
again, and `finding` finds those that it refuses among many. What assembly set aside is for no database, and stays until
it is discarded.
"""

from daemon.pipeline.dead_letters.finding import find_refused
from daemon.pipeline.dead_letters.folder import DeadLetters, folder_of
from daemon.pipeline.dead_letters.format import Found, Letter, Reason, pending_readings
from daemon.pipeline.dead_letters.retrying import Outcome, Retrying, position_of_letters

__all__ = [
    "DeadLetters",
    "Found",
    "Letter",
    "Outcome",
    "Reason",
    "Retrying",
    "find_refused",
    "folder_of",
    "pending_readings",
    "position_of_letters",
]

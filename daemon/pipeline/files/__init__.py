"""Files of records, as `docs/log.md` describes them: what the log and the dead letters have in common.

`format` lays out records and what a file of them begins with, `segment` writes and reads one file, and `identity` says
which folder a number belongs to. `deferred` keeps writes of a start that may wait, `beside` works on the disk beside
the event loop, and `acknowledged` is a note of what the database said last.
"""

from daemon.pipeline.files.acknowledged import Acknowledged
from daemon.pipeline.files.amount import Amount
from daemon.pipeline.files.errors import LogError, LogFull

__all__ = ["Acknowledged", "Amount", "LogError", "LogFull"]

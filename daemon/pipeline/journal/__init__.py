"""The journal: closed blocks on disk until the database has them; `docs/journal.md` describes its format.

`format` turns a block into bytes and back, `segment` is one file of them, `chain` says which of them are history.
`journal` is a folder of segments, with its lock and its `identity`: one is written, the others are `sealed`; `found` is
what it holds at the start, `acknowledged` a note of what the database said last. `keeper` lets the event loop use it
without waiting for the disk: it works `beside` that.
"""

from daemon.pipeline.journal.acknowledged import Acknowledged
from daemon.pipeline.journal.found import Amount, Foreign, JournalRecovery
from daemon.pipeline.journal.journal import Journal, JournalError, JournalFull

__all__ = ["Acknowledged", "Amount", "Foreign", "Journal", "JournalError", "JournalFull", "JournalRecovery"]

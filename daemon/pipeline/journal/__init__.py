"""The journal: closed blocks on disk until the database has them; `docs/journal.md` describes its format.

`format` turns a block into bytes and back, `segment` is one file of them, `chain` says which of them are history.
`journal` is a folder of segments, with its lock and its `identity`: one is `growing`, and these before it are `sealed`;
`others` are those of other journals. `opening` takes over what is `found` at the start, `left` counts what is there of
a journal that nobody has open, and `acknowledged` is a note of what the database said last. `keeper` lets the event
loop use the journal without waiting for the disk: it works `beside` that.
"""

from daemon.pipeline.journal.acknowledged import Acknowledged
from daemon.pipeline.journal.errors import JournalError, JournalFull
from daemon.pipeline.journal.found import Amount, Foreign, JournalRecovery
from daemon.pipeline.journal.journal import Journal

__all__ = ["Acknowledged", "Amount", "Foreign", "Journal", "JournalError", "JournalFull", "JournalRecovery"]

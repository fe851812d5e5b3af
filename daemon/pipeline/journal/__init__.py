"""The journal: closed blocks on disk until the database has them; `docs/journal.md` describes its format.

`format` turns a block into bytes and back, `segment` is one file of them, `chain` says which of them are history,
`journal` is a folder of segments with its lock and its `identity`, and `keeper` lets the event loop use it without
waiting for the disk.
"""

from daemon.pipeline.journal.journal import Amount, Foreign, Journal, JournalError, JournalFull, JournalRecovery

__all__ = ["Amount", "Foreign", "Journal", "JournalError", "JournalFull", "JournalRecovery"]

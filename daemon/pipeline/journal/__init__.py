"""The journal: closed blocks on disk until the database has them; `docs/journal.md` describes its format.

`format` turns a block into bytes and back, `segment` is one file of them, `journal` a folder of segments with its lock,
and `thread` lets the event loop use it without waiting for the disk.
"""

from daemon.pipeline.journal.journal import Amount, Journal, JournalError, JournalFull, JournalRecovery

__all__ = ["Amount", "Journal", "JournalError", "JournalFull", "JournalRecovery"]

"""The journal: closed triggers on disk until the database has them; `docs/journal.md` tells its format."""

from daemon.pipeline.journal.journal import Amount, Journal, JournalError, JournalFull, JournalRecovery

__all__ = ["Amount", "Journal", "JournalError", "JournalFull", "JournalRecovery"]

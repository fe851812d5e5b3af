"""The committer: closed triggers become transactions, in order and once.

`committer` takes the oldest blocks, makes them ready, commits them, and notices when the database has lost some.
`transactions` is what it asks of the store, again for as long as that is away, and counts what is committed.
`rejected` finds the parts that the store rejects; `letters` keeps these, and what
assembly set aside, as dead letters.
"""

from daemon.pipeline.committer.committer import Committer
from daemon.pipeline.committer.rejected import FOLLOWS
from daemon.pipeline.committer.transactions import CommitCounts, longest_attempt_s

__all__ = ["FOLLOWS", "CommitCounts", "Committer", "longest_attempt_s"]

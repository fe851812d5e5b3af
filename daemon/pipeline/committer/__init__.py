"""The committer: closed triggers become transactions, in order and once.

`committer` takes the oldest blocks, makes them ready, commits them, and notices when the database has lost some.
`transactions` is what it asks of the store, and `attempts` asks that, and the disk, again for as long as it is away.
`account` counts what is committed. `rejected` finds the parts that the store rejects; `letters` keeps these, and what
assembly set aside, as dead letters.
"""

from daemon.pipeline.committer.account import CommitCounts
from daemon.pipeline.committer.attempts import longest_attempt_s
from daemon.pipeline.committer.committer import Committer
from daemon.pipeline.committer.rejected import FOLLOWS

__all__ = ["FOLLOWS", "CommitCounts", "Committer", "longest_attempt_s"]

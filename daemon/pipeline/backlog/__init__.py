"""The backlog: closed blocks on their way from assembly to the committer.

`backlog` numbers them, keeps them in memory and in the journal, and hands them out in order: what is `waiting`. `held`
is what the database has, and may lose again.
"""

from daemon.pipeline.backlog.backlog import Backlog
from daemon.pipeline.backlog.waiting import Waiting

__all__ = ["Backlog", "Waiting"]

"""The backlog: closed blocks on their way from assembly to the committer, numbered, in memory, in order."""

from daemon.pipeline.backlog.backlog import Backlog
from daemon.pipeline.backlog.waiting import Waiting

__all__ = ["Backlog", "Waiting"]

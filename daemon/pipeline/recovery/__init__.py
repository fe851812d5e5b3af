"""The groups as the process before left them: `in_store` asks the database, `recovery` has all of it.

A state folder that an earlier version left, or groups that are configured no more, keep the daemon from its start:
`refusing`.
"""

from daemon.pipeline.recovery.in_store import InStore, ask_store
from daemon.pipeline.recovery.recovery import Recalled, RecoveredGroup, recall, recover_group, runs_of
from daemon.pipeline.recovery.refusing import refuse_unknown_groups, unknown_groups

__all__ = [
    "InStore",
    "Recalled",
    "RecoveredGroup",
    "ask_store",
    "recall",
    "recover_group",
    "refuse_unknown_groups",
    "runs_of",
    "unknown_groups",
]

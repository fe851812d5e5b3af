"""The groups as the process before left them: `in_store` asks the database, `recovery` has all of it.

`history` has the closed triggers that assembly remembers, `reporting` tells operators what was found. What an
`earlier_version` left, or groups that are configured no more (`unknown_groups`), keeps the daemon from its start.
"""

from daemon.pipeline.recovery.in_store import InStore, ask_store
from daemon.pipeline.recovery.recovery import Recalled, RecoveredGroup, recall, recover_group, runs_of
from daemon.pipeline.recovery.unknown_groups import refuse_unknown_groups, unknown_groups

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

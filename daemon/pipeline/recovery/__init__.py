"""What a pipeline takes over at the start: what the database has of a group, and what the state folder has beyond it.

`recovery` asks the store and opens the journal and the dead letters; `history` makes of them the triggers for which
something may still come late; `unknown_groups` finds what nobody would take over.
"""

from daemon.pipeline.recovery.recovery import InStore, RecoveredGroup, ask_store, recover_group, runs_of
from daemon.pipeline.recovery.unknown_groups import refuse_unknown_groups

__all__ = ["InStore", "RecoveredGroup", "ask_store", "recover_group", "refuse_unknown_groups", "runs_of"]

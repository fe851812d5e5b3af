"""What a pipeline takes over at the start: what the database has of a group, and what the state folder has beyond it.

`recovery` puts together what `in_store` asks the store for, what `in_journal` reads in the journal, and the dead
letters; `history` makes of them the triggers for which something may still come late, and `reporting` tells operators
of them. `turned_off` and `unknown_groups` find what nobody would take over.
"""

from daemon.pipeline.recovery.in_store import InStore, ask_store
from daemon.pipeline.recovery.recovery import RecoveredGroup, recover_group, runs_of
from daemon.pipeline.recovery.unknown_groups import refuse_unknown_groups

__all__ = ["InStore", "RecoveredGroup", "ask_store", "recover_group", "refuse_unknown_groups", "runs_of"]

"""The paper's way in MongoDB: a document a reading, one insert_one after the other, 120 a trigger (pymongo).

The paper has it in PostgreSQL, and MongoDB as "next". Each insert is acknowledged by itself, with `j` when it is in the
journal on the disk: a server by itself knows no transaction over several, so that a reader sees half-written triggers,
and after a crash half a trigger can stay. One collection, with no index but that of `_id`.
"""

import time

from pymongo import WriteConcern

from benchmarks.rounds.commits import Clock, Commits
from benchmarks.servers.mongodb import connect
from benchmarks.strategies.strategy import Triggers


def write(dsn: str, database: str, triggers: Triggers, seconds: float, *, journal: bool = True) -> Commits:
    """Write triggers, round and round, for so many seconds."""
    with connect(dsn) as client:
        collection = client[database].get_collection("readings", write_concern=WriteConcern(w=1, j=journal))
        clock = Clock(seconds)
        for ready, trigger in clock.feed(triggers):
            for i, (top_in, bot_in, bot_out, top_out) in enumerate(trigger):
                collection.insert_one(
                    {
                        "instr": i,
                        "timestamp": time.time(),
                        "top_in": top_in,
                        "bot_in": bot_in,
                        "bot_out": bot_out,
                        "top_out": top_out,
                    }
                )
            clock.committed(ready)
    return clock.commits()

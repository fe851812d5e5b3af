"""A document a trigger, with an array of 120 values a channel, in one insert_one (pymongo).

What a document database offers in place of a transaction: a document is written whole or not at all. One collection,
with no index but that of `_id`.
"""

import time

from pymongo import WriteConcern

from benchmarks.rounds.commits import Clock, Commits
from benchmarks.servers.mongodb import connect
from benchmarks.strategies.strategy import Triggers


def write(dsn: str, database: str, triggers: Triggers, seconds: float, *, journal: bool = True) -> Commits:
    """Write triggers, round and round, for so many seconds."""
    with connect(dsn) as client:
        collection = client[database].get_collection("triggers", write_concern=WriteConcern(w=1, j=journal))
        clock = Clock(seconds)
        for ready, trigger in clock.feed(triggers):
            top_in, bot_in, bot_out, top_out = map(list, zip(*trigger, strict=True))
            collection.insert_one(
                {
                    "timestamp": [time.time() for _ in trigger],
                    "top_in": top_in,
                    "bot_in": bot_in,
                    "bot_out": bot_out,
                    "top_out": top_out,
                }
            )
            clock.committed(ready)
    return clock.commits()

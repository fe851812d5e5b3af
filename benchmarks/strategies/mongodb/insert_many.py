"""A document a reading, the 120 of a trigger in one insert_many (pymongo).

The counterpart of the paper's one COPY. It is one command, but no transaction: a reader may see a part of a trigger,
and a crash may leave one. One collection, with no index but that of `_id`; the driver makes the documents' ids.
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
            collection.insert_many(
                [
                    {
                        "instr": i,
                        "timestamp": time.time(),
                        "top_in": top_in,
                        "bot_in": bot_in,
                        "bot_out": bot_out,
                        "top_out": top_out,
                    }
                    for i, (top_in, bot_in, bot_out, top_out) in enumerate(trigger)
                ],
                ordered=False,
            )
            clock.committed(ready)
    return clock.commits()

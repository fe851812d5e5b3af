"""The paper's best: one table for all instruments, one COPY and one commit a trigger, one connection (psycopg).

As there, a trigger is put together as text, a line a reading, and goes out as one COPY; the paper recommends it, and
shows a plot only. The table has no index, no key and no partitions, and nothing keeps account of what is missing.

The paper tries it with asynchronous commits, too, "not server crash safe": the server acknowledges what is not on the
disk yet (`synchronous_commit = off`).
"""

import time
from io import StringIO

import psycopg

from benchmarks.rounds.commits import Clock, Commits
from benchmarks.strategies.strategy import Triggers


def write(dsn: str, schema: str, triggers: Triggers, seconds: float, *, synchronous_commit: str = "on") -> Commits:
    """Write triggers, round and round, for so many seconds."""
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(
            f"CREATE TABLE {schema}.instr0"
            " (instr int4, timestamp float8, top_in float8, bot_in float8, bot_out float8, top_out float8)"
        )
        connection.execute(f"SET synchronous_commit = {synchronous_commit}")
        connection.commit()
        statement = f"COPY {schema}.instr0 (instr, timestamp, top_in, bot_in, bot_out, top_out) FROM STDIN"
        clock = Clock(seconds)
        for ready, trigger in clock.feed(triggers):
            text = StringIO()
            for i, (top_in, bot_in, bot_out, top_out) in enumerate(trigger):
                text.write(f"{i}\t{time.time()}\t{top_in}\t{bot_in}\t{bot_out}\t{top_out}\n")
            with cursor.copy(statement) as copy:
                copy.write(text.getvalue())
            connection.commit()
            clock.committed(ready)
    return clock.commits()

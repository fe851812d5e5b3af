"""The paper's COPY for every INSERT: a table an instrument, 120 COPYs, one commit a trigger, one connection (psycopg).

Its code is `copy_one` for each instrument, a line of text in a StringIO given to `cur.copy_from`, then `conn.commit()`;
the paper shows a plot only. The tables have no index, no key and no partitions.
"""

import time

import psycopg

from benchmarks.rounds.commits import Clock, Commits
from benchmarks.strategies.strategy import Triggers


def write(dsn: str, schema: str, triggers: Triggers, seconds: float) -> Commits:
    """Write triggers, round and round, for so many seconds."""
    tables = range(len(triggers[0]))
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        connection.execute(f"CREATE SCHEMA {schema}")
        for i in tables:
            connection.execute(
                f"CREATE TABLE {schema}.instr{i}"
                " (instr int4, timestamp float8, top_in float8, bot_in float8, bot_out float8, top_out float8)"
            )
        connection.commit()
        columns = "(instr, timestamp, top_in, bot_in, bot_out, top_out)"
        statements = [f"COPY {schema}.instr{i} {columns} FROM STDIN" for i in tables]
        clock = Clock(seconds)
        for ready, trigger in clock.feed(triggers):
            for i, (top_in, bot_in, bot_out, top_out) in enumerate(trigger):
                with cursor.copy(statements[i]) as copy:
                    copy.write(f"{i}\t{time.time()}\t{top_in}\t{bot_in}\t{bot_out}\t{top_out}\n")
            connection.commit()
            clock.committed(ready)
    return clock.commits()

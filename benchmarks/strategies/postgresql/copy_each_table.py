"""The paper's COPY for every INSERT: a table an instrument, 120 COPYs, one commit a trigger, one connection.

Its code is `copy_one` for each instrument, a line of text in a StringIO given to `cur.copy_from`, then `conn.commit()`;
the paper shows a plot only. The tables have no index, no key and no partitions.
"""

import time
from contextlib import closing

from benchmarks.rounds.commits import Clock, Commits
from benchmarks.strategies.postgresql.drivers import PSYCOPG2, Driver
from benchmarks.strategies.strategy import Triggers


def write(dsn: str, schema: str, triggers: Triggers, seconds: float, *, driver: Driver = PSYCOPG2) -> Commits:
    """Write triggers, round and round, for so many seconds."""
    tables = range(len(triggers[0]))
    with closing(driver.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {schema}")
        for i in tables:
            cursor.execute(
                f"CREATE TABLE {schema}.instr{i}"
                " (instr int4, timestamp float8, top_in float8, bot_in float8, bot_out float8, top_out float8)"
            )
        connection.commit()
        columns = ("instr", "timestamp", "top_in", "bot_in", "bot_out", "top_out")
        clock = Clock(seconds)
        for ready, trigger in clock.feed(triggers):
            for i, (top_in, bot_in, bot_out, top_out) in enumerate(trigger):
                line = f"{i}\t{time.time()}\t{top_in}\t{bot_in}\t{bot_out}\t{top_out}\n"
                driver.copy(cursor, f"{schema}.instr{i}", columns, line)
            connection.commit()
            clock.committed(ready)
    return clock.commits()

"""The paper's best: one table for all instruments, one COPY and one commit a trigger, one connection.

As there, a trigger is put together as text, a line a reading, and goes out as one COPY; the paper recommends it, and
shows a plot only. The table has no index, no key and no partitions, and nothing keeps account of what is missing.

The paper tries it with asynchronous commits, too, "not server crash safe": the server acknowledges what is not on the
disk yet (`synchronous_commit = off`).
"""

import time
from contextlib import closing
from io import StringIO

from benchmarks.rounds.commits import Clock, Commits
from benchmarks.strategies.postgresql.drivers import PSYCOPG2, Driver
from benchmarks.strategies.strategy import Triggers


def write(
    dsn: str,
    schema: str,
    triggers: Triggers,
    seconds: float,
    *,
    synchronous_commit: str = "on",
    driver: Driver = PSYCOPG2,
) -> Commits:
    """Write triggers, round and round, for so many seconds."""
    with closing(driver.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {schema}")
        cursor.execute(
            f"CREATE TABLE {schema}.instr0"
            " (instr int4, timestamp float8, top_in float8, bot_in float8, bot_out float8, top_out float8)"
        )
        cursor.execute(f"SET synchronous_commit = {synchronous_commit}")
        connection.commit()
        columns = ("instr", "timestamp", "top_in", "bot_in", "bot_out", "top_out")
        clock = Clock(seconds)
        for ready, trigger in clock.feed(triggers):
            text = StringIO()
            for i, (top_in, bot_in, bot_out, top_out) in enumerate(trigger):
                text.write(f"{i}\t{time.time()}\t{top_in}\t{bot_in}\t{bot_out}\t{top_out}\n")
            driver.copy(cursor, f"{schema}.instr0", columns, text.getvalue())
            connection.commit()
            clock.committed(ready)
    return clock.commits()

"""One table for all instruments, one INSERT of 120 rows and one commit a trigger, one connection (PyMySQL).

The counterpart of the paper's one COPY for programs with INSERT: `executemany` makes one statement of the rows. The
table has no index and no partitions, and nothing keeps account of what is missing.
"""

import time
from contextlib import closing

from benchmarks.rounds.commits import Clock, Commits
from benchmarks.servers.mysql import Cursor, connect
from benchmarks.strategies.strategy import Triggers


def write(dsn: str, schema: str, triggers: Triggers, seconds: float) -> Commits:
    """Write triggers, round and round, for so many seconds."""
    with closing(connect(dsn)) as connection, connection.cursor() as cursor:
        create(cursor, schema)
        statement = (
            f"INSERT INTO {schema}.instr0 (instr, timestamp, top_in, bot_in, bot_out, top_out)"
            " VALUES (%s, %s, %s, %s, %s, %s)"
        )
        clock = Clock(seconds)
        for ready, trigger in clock.feed(triggers):
            cursor.executemany(statement, [(i, time.time(), *reading) for i, reading in enumerate(trigger)])
            connection.commit()
            clock.committed(ready)
    return clock.commits()


def create(cursor: Cursor, schema: str) -> None:
    """Make the table."""
    cursor.execute(f"CREATE DATABASE {schema}")
    cursor.execute(
        f"CREATE TABLE {schema}.instr0 (instr int, timestamp double,"
        " top_in double, bot_in double, bot_out double, top_out double) ENGINE = InnoDB"
    )

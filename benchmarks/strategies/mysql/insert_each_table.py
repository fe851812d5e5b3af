"""The paper's way in MariaDB: a table an instrument, 120 INSERTs and one commit a trigger, one connection (PyMySQL).

The paper has it in PostgreSQL, and MariaDB as "next". The driver knows no prepared statements: it puts the values into
the text, as it does for everybody. The tables have no index and no partitions, and nothing keeps account of what is
missing; InnoDB gives them a hidden key.
"""

import time
from contextlib import closing

from benchmarks.rounds.commits import Clock, Commits
from benchmarks.servers.mysql import connect
from benchmarks.strategies.strategy import Triggers


def write(dsn: str, schema: str, triggers: Triggers, seconds: float) -> Commits:
    """Write triggers, round and round, for so many seconds."""
    tables = range(len(triggers[0]))
    with closing(connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {schema}")
        for i in tables:
            cursor.execute(
                f"CREATE TABLE {schema}.instr{i}"
                " (timestamp double, top_in double, bot_in double, bot_out double, top_out double) ENGINE = InnoDB"
            )
        statements = [
            f"INSERT INTO {schema}.instr{i} (timestamp, top_in, bot_in, bot_out, top_out) VALUES (%s, %s, %s, %s, %s)"
            for i in tables
        ]
        clock = Clock(seconds)
        for ready, trigger in clock.feed(triggers):
            for statement, reading in zip(statements, trigger, strict=True):
                cursor.execute(statement, (time.time(), *reading))
            connection.commit()
            clock.committed(ready)
    return clock.commits()

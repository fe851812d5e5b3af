"""The paper's way: a table an instrument, 120 INSERTs and one commit a trigger, one connection.

Its code is `for i in range(n_instr): cur.execute("INSERT INTO instr<i> (timestamp, top_in, ...) VALUES (...)")`, then
`conn.commit()`: about 44 Hz on the server's own node, with psycopg2. The tables have no index, no key and no
partitions, and nothing keeps account of what is missing.
"""

import time
from collections.abc import Callable
from contextlib import closing

from benchmarks.rounds.commits import Clock, Commits
from benchmarks.strategies.postgresql.drivers import PSYCOPG2, Driver
from benchmarks.strategies.strategy import Triggers


def create(dsn: str, schema: str, tables: range) -> None:
    """Make the tables."""
    with closing(PSYCOPG2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {schema}")
        for i in tables:
            cursor.execute(
                f"CREATE TABLE {schema}.instr{i}"
                " (timestamp float8, top_in float8, bot_in float8, bot_out float8, top_out float8)"
            )


def statements(schema: str, tables: range) -> list[str]:
    """Make the INSERTs of a trigger, a table each."""
    return [
        f"INSERT INTO {schema}.instr{i} (timestamp, top_in, bot_in, bot_out, top_out) VALUES (%s, %s, %s, %s, %s)"
        for i in tables
    ]


def write(dsn: str, schema: str, triggers: Triggers, seconds: float, *, driver: Driver = PSYCOPG2) -> Commits:
    """Write triggers, round and round, for so many seconds."""
    tables = range(len(triggers[0]))
    create(dsn, schema, tables)
    return insert(dsn, schema, tables, triggers, seconds, driver)


def insert(
    dsn: str,
    schema: str,
    tables: range,
    triggers: Triggers,
    seconds: float,
    driver: Driver,
    start: Callable[[], object] = lambda: None,
) -> Commits:
    """Write the part of the triggers that goes into these tables; `start` is waited for before the clock runs."""
    with closing(driver.connect(dsn)) as connection, connection.cursor() as cursor:
        inserts = statements(schema, tables)
        parts = [trigger[tables.start : tables.stop] for trigger in triggers]
        start()
        clock = Clock(seconds)
        for ready, part in clock.feed(parts):
            for statement, reading in zip(inserts, part, strict=True):
                cursor.execute(statement, (time.time(), *reading))
            connection.commit()
            clock.committed(ready)
    return clock.commits(len(tables))

"""The paper's way: a table an instrument, 120 INSERTs and one commit a trigger, one connection (psycopg).

Its code is `for i in range(n_instr): cur.execute("INSERT INTO instr<i> (timestamp, top_in, ...) VALUES (...)")`, then
`conn.commit()`. Here it is with psycopg 3, which prepares a statement that comes again; that only helps it. The tables
have no index, no key and no partitions, and nothing keeps account of what is missing.
"""

import itertools
import time
from collections.abc import Sequence

import psycopg

Reading = tuple[float, float, float, float]


def create(connection: psycopg.Connection, schema: str, instruments: int) -> None:
    """Make the tables."""
    connection.execute(f"CREATE SCHEMA {schema}")
    for i in range(instruments):
        connection.execute(
            f"CREATE TABLE {schema}.instr{i}"
            " (timestamp float8, top_in float8, bot_in float8, bot_out float8, top_out float8)"
        )
    connection.commit()


def write(dsn: str, schema: str, triggers: Sequence[Sequence[Reading]], seconds: float) -> tuple[int, float]:
    """Write triggers, round and round, for so many seconds; return how many, and the seconds they took."""
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        create(connection, schema, len(triggers[0]))
        statements = [
            f"INSERT INTO {schema}.instr{i} (timestamp, top_in, bot_in, bot_out, top_out) VALUES (%s, %s, %s, %s, %s)"
            for i in range(len(triggers[0]))
        ]
        begun, written = time.perf_counter(), 0
        for trigger in itertools.cycle(triggers):
            for statement, reading in zip(statements, trigger, strict=True):
                cursor.execute(statement, (time.time(), *reading))
            connection.commit()
            written += 1
            if (taken := time.perf_counter() - begun) >= seconds:
                break
    return written, taken

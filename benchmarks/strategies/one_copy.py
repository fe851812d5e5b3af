"""The paper's best: one table for all instruments, one COPY and one commit a trigger, one connection (psycopg).

As there, a trigger is put together as text, a line a reading, and goes out as one COPY. The table has no index, no key
and no partitions, and nothing keeps account of what is missing.
"""

import itertools
import time
from collections.abc import Sequence
from io import StringIO

import psycopg

from benchmarks.strategies.insert_each_table import Reading


def create(connection: psycopg.Connection, schema: str) -> None:
    """Make the table."""
    connection.execute(f"CREATE SCHEMA {schema}")
    connection.execute(
        f"CREATE TABLE {schema}.instr0"
        " (instr int4, timestamp float8, top_in float8, bot_in float8, bot_out float8, top_out float8)"
    )
    connection.commit()


def write(dsn: str, schema: str, triggers: Sequence[Sequence[Reading]], seconds: float) -> tuple[int, float]:
    """Write triggers, round and round, for so many seconds; return how many, and the seconds they took."""
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        create(connection, schema)
        statement = f"COPY {schema}.instr0 (instr, timestamp, top_in, bot_in, bot_out, top_out) FROM STDIN"
        begun, written = time.perf_counter(), 0
        for trigger in itertools.cycle(triggers):
            text = StringIO()
            for i, (top_in, bot_in, bot_out, top_out) in enumerate(trigger):
                text.write(f"{i}\t{time.time()}\t{top_in}\t{bot_in}\t{bot_out}\t{top_out}\n")
            with cursor.copy(statement) as copy:
                copy.write(text.getvalue())
            connection.commit()
            written += 1
            if (taken := time.perf_counter() - begun) >= seconds:
                break
    return written, taken

"""The paper's processes, "2/2": three at once, each writing its third of every trigger into 40 tables.

About three times the 44 Hz there. Each process is the paper's way over a connection of its own, with 40 INSERTs and a
commit a trigger. They do not wait for each other, "far from being a fair attempt": a trigger is complete here when the
last of the three has committed its part, and until then a reader sees a part of it.
"""

import itertools

from benchmarks.rounds.commits import Commits, completed
from benchmarks.strategies.postgresql.drivers import PSYCOPG2, Driver
from benchmarks.strategies.postgresql.insert_each_table import create, insert
from benchmarks.strategies.strategy import Triggers, in_processes

PROCESSES = 3


def write(dsn: str, schema: str, triggers: Triggers, seconds: float, *, driver: Driver = PSYCOPG2) -> Commits:
    """Write triggers, round and round, for so many seconds."""
    tables = range(len(triggers[0]))
    create(dsn, schema, tables)
    return completed(
        in_processes(
            insert, [(dsn, schema, part, triggers, seconds, driver) for part in thirds(len(tables), PROCESSES)]
        )
    )


def thirds(instruments: int, processes: int) -> list[range]:
    """Share the tables out, as evenly as they go."""
    edges = [instruments * k // processes for k in range(processes + 1)]
    return [range(start, stop) for start, stop in itertools.pairwise(edges)]

"""The paper's processes, "1/2": three at once, each writing whole triggers into the same 120 tables.

"As if we had 3 independent CBPM systems to read from": its bulk is in the hundreds of Hz. Each process is the paper's
way, 120 INSERTs and a commit a trigger over a connection of its own. The rate is that of all three together, and 1/dt
is between any two successive triggers, whoever wrote them: two processes that commit at nearly the same moment give a
spike, as in the paper's plot.
"""

from benchmarks.rounds.commits import Commits, merged
from benchmarks.strategies.postgresql.drivers import PSYCOPG2, Driver
from benchmarks.strategies.postgresql.insert_each_table import create, insert
from benchmarks.strategies.strategy import Triggers, in_processes

PROCESSES = 3


def write(dsn: str, schema: str, triggers: Triggers, seconds: float, *, driver: Driver = PSYCOPG2) -> Commits:
    """Write triggers, round and round, for so many seconds."""
    tables = range(len(triggers[0]))
    create(dsn, schema, tables)
    return merged(in_processes(insert, [(dsn, schema, tables, triggers, seconds, driver)] * PROCESSES))

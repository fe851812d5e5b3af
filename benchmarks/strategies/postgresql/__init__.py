"""The paper's ways with PostgreSQL, in the order of the paper; and the bare ones that show what the server can do."""

from functools import partial

from benchmarks.strategies.postgresql import (
    copy_each_table,
    insert_each_table,
    one_copy,
    processes_own_tables,
    processes_same_tables,
    tasks_own_connections,
    threads_one_connection,
)
from benchmarks.strategies.strategy import Strategy
from schemas.batch import Durability

STRATEGIES = (
    Strategy(
        slug="insert_each_table",
        title="120 tables, 120 INSERTs, one commit",
        write=insert_each_table.write,
        paper="about 44 Hz",
    ),
    Strategy(
        slug="threads_one_connection",
        title="10 threads share one connection, 120 INSERTs each",
        write=threads_one_connection.write,
        paper="up to about 20 times the 44 Hz",
        safe=False,
        note="A thread's commit commits what the others have written so far: readers see half-written triggers.",
    ),
    Strategy(
        slug="tasks_own_connections",
        title="10 tasks, a connection each, 120 INSERTs each",
        write=tasks_own_connections.write,
        note="Not in the paper: its threads without their fault.",
    ),
    Strategy(
        slug="processes_same_tables",
        title="3 processes, the same 120 tables",
        write=processes_same_tables.write,
        paper="bulk in the hundreds of Hz",
        note="The rate of all three together, as if each had instruments of its own.",
    ),
    Strategy(
        slug="processes_own_tables",
        title="3 processes, 40 tables each",
        write=processes_own_tables.write,
        paper="about 3 times the 44 Hz",
        safe=False,
        note="A trigger is three transactions: readers see parts of it until the last is committed.",
    ),
    Strategy(
        slug="copy_each_table",
        title="120 tables, 120 COPYs, one commit",
        write=copy_each_table.write,
        paper="plot only",
    ),
    Strategy(
        slug="one_copy",
        title="one table, one COPY, one commit",
        write=one_copy.write,
        paper="plot only; recommended there",
    ),
    Strategy(
        slug="one_copy_async",
        title="one table, one COPY, asynchronous commit",
        write=partial(one_copy.write, synchronous_commit="off"),
        paper="plot only",
        durability=Durability.ASYNC,
        safe=False,
        note="Not crash safe: the server may lose the last moments of what it acknowledged.",
    ),
)

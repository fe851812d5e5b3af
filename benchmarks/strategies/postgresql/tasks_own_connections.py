"""The paper's threads done right: ten tasks, a connection each, so that a transaction is one trigger (asyncpg).

As in the paper ten triggers are under way at once, each 120 INSERTs into 120 tables and a commit. No task commits
what another has written: a reader sees a trigger whole or not at all. The statements are prepared once a
connection, which asyncpg does for as many as its cache holds.
"""

import asyncio
import time
from collections.abc import Iterator

import asyncpg

from benchmarks.load.workload import on_uvloop
from benchmarks.rounds.commits import Clock, Commits
from benchmarks.strategies.postgresql.insert_each_table import create
from benchmarks.strategies.strategy import Reading, Triggers

TASKS = 10


def write(dsn: str, schema: str, triggers: Triggers, seconds: float) -> Commits:
    """Write triggers, round and round, for so many seconds."""
    tables = range(len(triggers[0]))
    create(dsn, schema, tables)
    return insert(dsn, statements(schema, tables), triggers, seconds)


def statements(schema: str, tables: range) -> list[str]:
    """Make the INSERTs of a trigger, a table each."""
    columns = "(timestamp, top_in, bot_in, bot_out, top_out)"
    return [f"INSERT INTO {schema}.instr{i} {columns} VALUES ($1, $2, $3, $4, $5)" for i in tables]


def insert(dsn: str, inserts: list[str], triggers: Triggers, seconds: float) -> Commits:
    """Write triggers into the tables that are there."""
    return on_uvloop(_write(dsn, inserts, [list(trigger) for trigger in triggers], seconds))


async def _write(dsn: str, inserts: list[str], triggers: list[list[Reading]], seconds: float) -> Commits:
    connections = [await asyncpg.connect(dsn, statement_cache_size=2 * len(inserts)) for _ in range(TASKS)]
    try:
        clock = Clock(seconds)
        feed = clock.feed(triggers)
        async with asyncio.TaskGroup() as tasks:
            for connection in connections:
                tasks.create_task(_insert(connection, inserts, feed, clock))
    finally:
        for connection in connections:
            connection.terminate()
    return clock.commits()


async def _insert(
    connection: asyncpg.Connection, inserts: list[str], feed: Iterator[tuple[float, list[Reading]]], clock: Clock
) -> None:
    for ready, trigger in feed:
        timestamp = time.time()
        async with connection.transaction():
            for statement, reading in zip(inserts, trigger, strict=True):
                await connection.execute(statement, timestamp, *reading)
        clock.committed(ready)

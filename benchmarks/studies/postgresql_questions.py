"""`python -m benchmarks.studies.postgresql_questions`: what readers' questions cost a PostgreSQL (decision 0029).

Every question in both layouts, and ways to answer it that were not taken: how long it takes, and the processor time of
the whole server and of the asker, which other programs on the machine disturb less. Then commits of single triggers
while a query scans everything again and again, in one process of the server or in several, by turns.
"""

import argparse
import asyncio
import itertools
import tempfile
import time
from pathlib import Path

import asyncpg
import numpy as np

from backends.base import ReadOnly
from backends.postgresql import PostgresqlStore
from backends.postgresql.protocol.output import copied
from backends.postgresql.protocol.sql import compiled
from backends.postgresql.reading.figures import select_aggregate, select_means
from backends.sql.tables import group_tables
from backends.throwaway.postgresql import ThrowawayPostgresql
from benchmarks.load.workload import GROUP, LOGGER
from benchmarks.studies.questions import (
    BATCH,
    PERIOD_NS,
    SECOND_NS,
    ask_all,
    ask_and_print,
    batches,
    print_columns,
    print_line,
    questions,
)
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.queries import Means, Query
from schemas.readings import Array

ROW_BYTES = 88
"""Of a reading in a binary COPY."""
COMMIT_EVERY_S = 0.01


def _store_of(dsn: str, layout: Layout, read_only: ReadOnly | None = None) -> PostgresqlStore:
    database = DatabaseConfig(dsn=dsn, schema=f"bench_{layout}", partition="hour")
    return PostgresqlStore(
        database, logger=LOGGER, groups={"bpm": GROUP}, layouts={"bpm": layout}, password=None, read_only=read_only
    )


async def _ask_everything(dsn: str, pid: int, begun_ns: int, triggers: int, rounds: int) -> None:
    asked = questions(begun_ns, triggers)
    print_columns()
    for layout in Layout:
        store = _store_of(dsn, layout, ReadOnly(connections=1, give_up_s=600))
        await ask_all(store, layout, asked, pid, rounds)
        await store.close()
    await ask_otherwise(dsn, pid, asked[-2], rounds)


async def ask_otherwise(dsn: str, pid: int, means: Query, rounds: int) -> None:
    """The ways not taken."""
    assert isinstance(means, Means)
    connection = await asyncpg.connect(dsn)
    tables = group_tables("bench_rows", GROUP, Layout.ROWS)

    async def by_several() -> Array:
        return np.frombuffer(await copied(connection, select_means(tables, means)), np.uint8)

    async def unnested() -> Array:
        figures = ", ".join(f"avg(nullif({channel.name}, 'NaN'))" for channel in GROUP.channels)
        text = (
            f"SELECT instrument, time_ns / {means.step_ns}, count(*), {figures} FROM bench_arrays.bpm_readings"
            f" WHERE trigger_time_ns >= {means.start_ns} AND trigger_time_ns < {means.end_ns} GROUP BY 1, 2"
        )
        answer = bytearray()

        async def take(chunk: bytes) -> None:
            answer.extend(chunk)

        await connection.copy_from_query(text, output=take, format="binary")
        return np.frombuffer(answer, np.uint8)

    async def handed_out() -> Array:
        size = 0

        async def take(chunk: bytes) -> None:
            nonlocal size
            size += len(chunk)

        await connection.copy_from_query("SELECT * FROM bench_rows.bpm", output=take, format="binary")
        return np.empty(size // ROW_BYTES)

    await ask_and_print("rows Means, parallel workers (bytes)", by_several, pid, rounds)
    await ask_and_print("rows handed out for Means here, not yet reduced", handed_out, pid, rounds)
    await connection.execute("SET max_parallel_workers_per_gather = 0")
    await ask_and_print("arrays Means, unnested by the server (bytes)", unnested, pid, rounds)
    await connection.close()


async def during_scans(dsn: str, begun_ns: int, first: int, seconds: float, rounds: int) -> None:
    """Commit single triggers during scans, with as many processes of the server as it chooses, or with one."""
    writer = _store_of(dsn, Layout.ROWS)
    await writer.open()
    coming = batches(first, 1_000_000, 1, begun_ns)
    waited: dict[str, list[float]] = {}
    for workers in itertools.chain.from_iterable([(None, 0, 2)] * rounds):
        name = "no scan" if workers is None else f"a scan, {workers} parallel workers"
        scanning = None if workers is None else asyncio.create_task(_scan(dsn, workers))
        until = time.monotonic() + seconds
        for batch in coming:
            began = time.perf_counter()
            await writer.commit(batch)
            waited.setdefault(name, []).append(time.perf_counter() - began)
            if time.monotonic() > until:
                break
            await asyncio.sleep(COMMIT_EVERY_S)
        if scanning is not None:
            scanning.cancel()
            await asyncio.gather(scanning, return_exceptions=True)
    await writer.close()
    print_line(f"\n{'commit of one trigger, ms':48}{'commits':>10}{'p50':>10}{'p99':>10}")
    for name, values in waited.items():
        p50, p99 = np.percentile(values, [50, 99]) * 1000
        print_line(f"{name:48}{len(values):>10}{p50:>10.1f}{p99:>10.1f}")


async def _scan(dsn: str, workers: int) -> None:
    connection = await asyncpg.connect(dsn, server_settings={"max_parallel_workers_per_gather": str(workers)})
    try:
        while True:
            await connection.fetch(compiled(select_aggregate(group_tables("bench_rows", GROUP, Layout.ROWS))))
    finally:
        connection.terminate()


async def _measure(dsn: str, pid: int, options: argparse.Namespace) -> None:
    begun_ns = (time.time_ns() // (3600 * SECOND_NS)) * 3600 * SECOND_NS - options.triggers // 2 * PERIOD_NS
    for layout in Layout:
        store = _store_of(dsn, layout)
        await store.open()
        for batch in batches(0, options.triggers, BATCH, begun_ns):
            await store.commit(batch)
        await store.close()
    print_line(
        f"{options.triggers:,} triggers of {GROUP.size} instruments in each layout, over two hours' partitions\n"
    )
    await _ask_everything(dsn, pid, begun_ns, options.triggers, options.rounds)
    await during_scans(dsn, begun_ns, options.triggers, options.seconds, options.rounds)


def main() -> None:
    """Fill a server, ask it, and print what that took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.postgresql_questions")
    parser.add_argument("--triggers", type=int, default=18_000, help="how many are stored, at 10 a second")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is asked")
    parser.add_argument("--seconds", type=float, default=10, help="how long commits go on during each scan")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="triggerlog-bench-") as folder:
        Path(folder).chmod(0o711)  # as root the server runs under another account
        server = ThrowawayPostgresql(Path(folder))
        dsn = server.start()
        try:
            pid = server.pid
            assert pid is not None
            asyncio.run(_measure(dsn, pid, options))
        finally:
            server.stop()


if __name__ == "__main__":
    main()

"""What readers' questions cost a PostgreSQL: `python -m benchmarks.postgresql_questions`. Decision 0029 stands on it.

Every question in both layouts, and ways to answer it that were not taken: how long it takes, and the processor time of
the whole server and of the asker, which other programs on the machine disturb less. Then commits of single triggers
beside somebody who goes through everything again and again, in one process of the server or in several, in turn.
"""

import argparse
import asyncio
import contextlib
import itertools
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import asyncpg
import numpy as np
import psutil

from backends.base import Reading
from backends.postgresql import PostgresqlStore
from backends.postgresql.figures import select_aggregate, select_means
from backends.postgresql.output import copied
from backends.postgresql.sql import compiled
from backends.throwaway.postgresql import ThrowawayPostgresql
from benchmarks.workload import GROUP, LOGGER, closed_triggers, random_records
from schemas.batch import Batch, Durability, JournalPosition, Layout
from schemas.config import DatabaseConfig
from schemas.queries import (
    Aggregate,
    InstrumentReadings,
    LedgerEnds,
    Means,
    NewestTrigger,
    Query,
    Snapshot,
    TriggersReadings,
    WindowReadings,
)
from schemas.readings import Array
from schemas.tables import group_tables

SECOND_NS = 1_000_000_000
PERIOD_NS = SECOND_NS // 10
"""Ten triggers a second are the goal of the CBPM3 paper; in half an hour they are 2.16 million readings."""
BATCH = 500
ROW_BYTES = 88
"""Of a reading in a binary COPY."""
COMMIT_EVERY_S = 0.01
Asked = Callable[[], Awaitable[Array]]


class Cost:
    """Processor time of a server, with all its processes, and of this one, in seconds."""

    def __init__(self, pid: int) -> None:
        self._server = psutil.Process(pid)
        self._begun = time.perf_counter(), *self._now()

    def since(self) -> tuple[float, float, float]:
        """Seconds that went by, and of them with the server and with us at work."""
        now = time.perf_counter(), *self._now()
        passed, server, own = (after - before for before, after in zip(self._begun, now, strict=True))
        return passed, server, own

    def _now(self) -> tuple[float, float]:
        first = self._server.cpu_times()
        server = first.children_user + first.children_system
        for process in [self._server, *self._server.children()]:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                server += times.user + times.system
        return server, time.process_time()


def _store_of(dsn: str, layout: Layout, reading: Reading | None = None) -> PostgresqlStore:
    database = DatabaseConfig(dsn=dsn, schema=f"bench_{layout}", partition="hour")
    return PostgresqlStore(
        database, logger=LOGGER, groups={"bpm": GROUP}, layouts={"bpm": layout}, password=None, reading=reading
    )


def _batches(first: int, triggers: int, size: int, begun_ns: int) -> Iterator[Batch]:
    for start in range(first, first + triggers, size):
        records = random_records(min(size, first + triggers - start), seed=start)
        numbers = np.arange(start, start + len(records))
        records["trigger"] = numbers[:, None]
        records["time_ns"] = (begun_ns + numbers * PERIOD_NS)[:, None]
        closed = closed_triggers(records)
        position = JournalPosition(sequence=start + 1)
        yield Batch(
            readings=closed.readings,
            present=closed.present,
            ledger=closed.ledger,
            late=closed.late,
            late_of=closed.late_of,
            revised=closed.revised,
            group=GROUP,
            position=position,
            durability=Durability.SYNC,
        )


def _questions(begun_ns: int, triggers: int) -> list[Query]:
    end_ns = begun_ns + triggers * PERIOD_NS
    middle_ns = begun_ns + triggers // 2 * PERIOD_NS
    rng = np.random.default_rng(1)
    scattered = rng.choice(triggers, min(triggers, 10_000), replace=False).tolist()
    hour_ns = 3600 * SECOND_NS
    return [
        LedgerEnds(group=GROUP),
        NewestTrigger(group=GROUP),
        InstrumentReadings(group=GROUP, instrument=7, start_ns=end_ns - 100 * SECOND_NS, end_ns=end_ns, most=1000),
        Snapshot(group=GROUP, at_ns=middle_ns, within_ns=hour_ns),
        WindowReadings(group=GROUP, start_ns=middle_ns, end_ns=middle_ns + 10 * SECOND_NS),
        TriggersReadings(group=GROUP, run=1, triggers=tuple(scattered[:100])),
        TriggersReadings(group=GROUP, run=1, triggers=tuple(scattered)),
        Means(group=GROUP, start_ns=begun_ns, end_ns=end_ns, step_ns=60 * SECOND_NS),
        Aggregate(group=GROUP),
    ]


def say(line: str) -> None:
    """Print at once: a measurement takes minutes."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def told(what: str, ask: Asked, pid: int, rounds: int) -> None:
    """Print the least of some rounds: what disturbs only adds."""
    found, answer = [], np.empty(0)
    for _ in range(rounds):
        cost = Cost(pid)
        answer = await ask()
        found.append(cost.since())
    passed, server, own = np.min(found, axis=0) * 1000
    say(f"{what:48}{len(answer):>10}{passed:>10.0f}{server:>10.0f}{own:>10.0f}")


async def _ask_everything(dsn: str, pid: int, begun_ns: int, triggers: int, rounds: int) -> None:
    say(f"{'':48}{'rows':>10}{'ms':>10}{'server':>10}{'own':>10}")
    for layout in Layout:
        store = _store_of(dsn, layout, Reading(connections=1, give_up_s=600))
        for query in _questions(begun_ns, triggers):
            name = f"{layout} {type(query).__name__}"
            name += f" of {len(query.triggers)}" if isinstance(query, TriggersReadings) else ""
            await told(name, partial(store.ask, query), pid, rounds)
        await store.close()
    await ask_otherwise(dsn, pid, _questions(begun_ns, triggers)[-2], rounds)


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

        async def take(piece: bytes) -> None:
            answer.extend(piece)

        await connection.copy_from_query(text, output=take, format="binary")
        return np.frombuffer(answer, np.uint8)

    async def handed_out() -> Array:
        size = 0

        async def take(piece: bytes) -> None:
            nonlocal size
            size += len(piece)

        await connection.copy_from_query("SELECT * FROM bench_rows.bpm", output=take, format="binary")
        return np.empty(size // ROW_BYTES)

    await told("rows Means, parallel workers (bytes)", by_several, pid, rounds)
    await told("rows handed out for Means here, not yet reduced", handed_out, pid, rounds)
    await connection.execute("SET max_parallel_workers_per_gather = 0")
    await told("arrays Means, unnested by the server (bytes)", unnested, pid, rounds)
    await connection.close()


async def beside_scans(dsn: str, begun_ns: int, first: int, seconds: float, rounds: int) -> None:
    """Commit single triggers while somebody scans, with as many processes of the server as it likes, or in one."""
    writer = _store_of(dsn, Layout.ROWS)
    await writer.open()
    coming = _batches(first, 1_000_000, 1, begun_ns)
    waited: dict[str, list[float]] = {}
    for workers in itertools.chain.from_iterable([(None, 0, 2)] * rounds):
        name = "nobody scans" if workers is None else f"a scan, {workers} parallel workers"
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
    say(f"\n{'commit of one trigger, ms':48}{'commits':>10}{'p50':>10}{'p99':>10}")
    for name, values in waited.items():
        p50, p99 = np.percentile(values, [50, 99]) * 1000
        say(f"{name:48}{len(values):>10}{p50:>10.1f}{p99:>10.1f}")


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
        for batch in _batches(0, options.triggers, BATCH, begun_ns):
            await store.commit(batch)
        await store.close()
    say(f"{options.triggers:,} triggers of {GROUP.size} instruments in each layout, over two hours' partitions\n")
    await _ask_everything(dsn, pid, begun_ns, options.triggers, options.rounds)
    await beside_scans(dsn, begun_ns, options.triggers, options.seconds, options.rounds)


def main() -> None:
    """Fill a server, ask it, and print what that took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgresql_questions")
    parser.add_argument("--triggers", type=int, default=18_000, help="how many are stored, at 10 a second")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is asked")
    parser.add_argument("--seconds", type=float, default=10, help="how long commits go on beside each scan")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="triggerlog-bench-") as folder:
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

"""A PostgreSQL store that is only asked: how it gives up, what it shows of the server, what its questions touch."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg
import numpy as np
import pytest

from backends import open_store
from backends.base import ReadOnly, StoreError, StoreUnavailable
from backends.columns.partitions import partition_of
from backends.postgresql import PostgresqlStore
from backends.postgresql.protocol import output
from backends.postgresql.protocol.sql import compiled
from backends.postgresql.reading.queries import arrays_of, rows_of
from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.sql.tables import group_tables
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.marks import Mark
from schemas.queries import EXTREMES, Aggregate, LedgerTail, Means, Snapshot
from schemas.readings import InstrumentGroup
from tests.support.batches import batch_of, by_group, group_of, readings_of
from tests.support.memory.store import MemoryStore

Make = Callable[..., PostgresqlStore]
GROUP = group_of(size=4)
HOUR_NS = 3_600_000_000_000

READER = """
import asyncio, sys
from pathlib import Path
from backends.base import ReadOnly
from schemas.queries import Aggregate
from tests.backends.postgresql.test_reading import (GROUP, store_of)

async def main():
    store = store_of(sys.argv[1], sys.argv[2], ReadOnly(connections=1, give_up_s=float(sys.argv[3])))
    await store.ask(Aggregate(group=GROUP))

asyncio.run(main())
"""


def store_of(dsn: str, schema: str, read_only: ReadOnly | None = None, layout: str = "rows") -> PostgresqlStore:
    return PostgresqlStore(
        DatabaseConfig(dsn=dsn, schema=schema, partition="hour"),
        logger="main",
        groups=by_group(GROUP),
        layouts={"bpm": Layout(layout)},
        read_only=read_only,
    )


async def filled(store: PostgresqlStore, group: InstrumentGroup = GROUP) -> int:
    """Write four triggers an hour apart; return the time of the last."""
    now = time.time_ns()
    readings = readings_of(group, np.arange(4), now - np.arange(4)[::-1] * HOUR_NS, np.random.default_rng(1))
    await store.commit(batch_of(group, 1, readings))
    return now


@pytest.fixture
async def look(postgresql_dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgresql_dsn)
    yield connection
    await connection.close()


@asynccontextmanager
async def locked(dsn: str, table: str) -> AsyncIterator[None]:
    """Nobody reads a table meanwhile."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f"BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield
    finally:
        await connection.close()


@pytest.fixture
async def made(postgresql_dsn: str, schema: str) -> AsyncIterator[Make]:
    """Makes stores in one schema, and closes them."""
    async with AsyncExitStack() as stack:

        def make(read_only: ReadOnly | None = None, layout: str = "rows") -> PostgresqlStore:
            store = store_of(postgresql_dsn, schema, read_only, layout)
            stack.push_async_callback(store.close)
            return store

        yield make


async def until(condition: Callable[[], Awaitable[object]], within_s: float) -> float:
    """Wait until an awaitable condition holds; return how long it took, in seconds."""
    began = time.monotonic()
    while not await condition():
        assert time.monotonic() - began < within_s
        await asyncio.sleep(0.05)
    return time.monotonic() - began


def readers(look: asyncpg.Connection) -> Callable[[], Awaitable[object]]:
    async def count() -> int:
        found = await look.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = 'triggerlog main reader' AND state = 'active'"
        )
        return int(found)

    return count


async def test_it_reads_beside_the_writer_and_writes_nothing(made: Make, postgresql_dsn: str, schema: str) -> None:
    writer = made()
    await writer.open()
    await filled(writer)
    reader = made(ReadOnly(connections=2, give_up_s=30))
    answers = await asyncio.gather(*(reader.ask(LedgerTail(group=GROUP, most=9)) for _ in range(5)))
    assert [len(answer) for answer in answers] == [4] * 5
    assert (await reader.facts()).rows.keys() == {"bpm"}
    with pytest.raises(StoreError, match="read-only"):
        await reader.keep_mark(Mark(id=uuid4(), time_ns=1, text="no reader's"))


@pytest.mark.parametrize("layout", ["rows", "arrays"])
async def test_what_takes_too_long_is_given_up_in_one_line(
    made: Make, postgresql_dsn: str, schema: str, look: asyncpg.Connection, layout: str
) -> None:
    writer = made(layout=layout)
    await writer.open()
    await filled(writer)
    reader = made(ReadOnly(connections=1, give_up_s=3), layout)
    async with locked(postgresql_dsn, f"{schema}.bpm"):
        with pytest.raises(StoreUnavailable, match=r"took longer than 3 s") as given_up:
            await reader.ask(Aggregate(group=GROUP))
        assert "\n" not in str(given_up.value)
    assert len(await reader.ask(Aggregate(group=GROUP))) == 4


async def test_the_server_gives_up_what_a_killed_reader_asked(
    made: Make, postgresql_dsn: str, schema: str, look: asyncpg.Connection
) -> None:
    writer = made()
    await writer.open()
    await filled(writer)
    waiting = readers(look)
    give_up_s = 3.0

    async def gone() -> bool:
        return await waiting() == 0

    async with locked(postgresql_dsn, f"{schema}.bpm"):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", READER, postgresql_dsn, schema, str(give_up_s))
        )
        await until(waiting, 60)
        process.kill()
        await process.wait()
        # The lock is still held: nothing but the server itself can have ended it.
        await until(gone, give_up_s + 5)


async def test_an_embedded_server_is_found_and_not_started(tmp_path: Path) -> None:
    read_only = ReadOnly(connections=1, give_up_s=5)
    store = open_store(
        DatabaseConfig(),
        logger="main",
        groups=by_group(GROUP),
        layouts={"bpm": Layout.ROWS},
        state_dir=tmp_path,
        read_only=read_only,
    )
    with pytest.raises(StoreUnavailable, match="does not run"):
        await store.ask(LedgerTail(group=GROUP, most=1))
    assert not EmbeddedPostgresql(tmp_path).is_made


async def test_a_view_of_the_server_counts_and_waits(
    made: Make, postgresql_dsn: str, schema: str, look: asyncpg.Connection
) -> None:
    writer = made()
    await writer.open()
    reader = made(ReadOnly(connections=2, give_up_s=30))
    before = await reader.view()
    wanted = {"wal_bytes", "cache_hits", "cache_misses", "fsyncs", "temp_bytes", "commits", "rollbacks", "deadlocks"}
    assert before.counters.keys() >= wanted
    await filled(writer)

    async def counted() -> bool:
        after = (await reader.view()).counters
        assert all(after[name] >= count for name, count in before.counters.items())
        return after["wal_bytes"] > before.counters["wal_bytes"] and after["commits"] > before.counters["commits"]

    await until(counted, 60)
    async with locked(postgresql_dsn, f"{schema}.bpm"):
        waiting = asyncio.create_task(reader.ask(Aggregate(group=GROUP)))

        async def seen() -> bool:
            return (await reader.view()).waits.get("Lock:relation", 0) >= 1

        await until(seen, 60)
    await waiting


async def test_partitions_have_readings_and_ledger(made: Make, schema: str, look: asyncpg.Connection) -> None:
    writer = made()
    await writer.open()
    now = await filled(writer)
    first, *hours = (await writer.partitions())["bpm"]
    assert (first.name, first.start_ns, first.end_ns) == ("default", -(2**63), 2**63 - 1)
    current = partition_of(now, "hour")
    (mine,) = [hour for hour in hours if hour.name == current.label]
    assert (mine.start_ns, mine.end_ns) == (current.start_ns, current.end_ns)
    assert [hour.start_ns for hour in hours] == sorted(hour.start_ns for hour in hours)
    assert mine.size_bytes >= 2 * 8192

    await look.execute(f"ANALYZE {schema}.bpm")
    assert sum(hour.rows for hour in (await writer.partitions())["bpm"]) == 16


@pytest.mark.parametrize("layout", ["rows", "arrays"])
async def test_scattered_triggers_touch_no_other_partitions(
    made: Make, postgresql_dsn: str, schema: str, look: asyncpg.Connection, layout: str
) -> None:
    writer = made(layout=layout)
    await writer.open()
    now = await filled(writer)
    ledger = (await writer.ask(LedgerTail(group=GROUP, most=4)))[[1, 2]]
    tables = group_tables(schema, GROUP, Layout(layout))
    select = rows_of(tables, ledger) if layout == "rows" else arrays_of(tables, ledger)
    plan = "\n".join(row[0] for row in await look.fetch(f"EXPLAIN (ANALYZE, COSTS OFF) {compiled(select)}"))
    scanned = [line for line in plan.splitlines() if " on " in line and "Index Scan on" not in line]
    touched = [line for line in scanned if "never executed" not in line]
    labels = {partition_of(time_ns, "hour").label for time_ns in (now - HOUR_NS, now - 2 * HOUR_NS)}
    others = {partition_of(now - hours * HOUR_NS, "hour").label for hours in (0, 3)}
    assert all(any(label in line for line in touched) for label in labels), plan
    assert not any(label in line for label in others for line in touched), plan


async def test_means_and_snapshots_leave_out_partitions(
    made: Make, postgresql_dsn: str, schema: str, look: asyncpg.Connection
) -> None:
    """Another partition's lock does not hold them up: they do not look at it."""
    writer = made()
    await writer.open()
    now = await filled(writer)
    earlier = partition_of(now - 3 * HOUR_NS, "hour").label
    reader = made(ReadOnly(connections=1, give_up_s=20))
    async with locked(postgresql_dsn, f'{schema}."bpm${earlier}"'):
        means = await reader.ask(Means(group=GROUP, start_ns=now - 10**9, end_ns=now + 10**9, step_ns=HOUR_NS))
        assert means["count"].tolist() == [1] * 4
        assert len(await reader.ask(Snapshot(group=GROUP, at_ns=now + 10**6, within_ns=10**9))) == 4


@pytest.mark.parametrize("chunk_bytes", [1, 5_000])
async def test_what_is_made_here_comes_in_chunks(made: Make, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    monkeypatch.setattr(output, "CHUNK_BYTES", chunk_bytes)
    store = made(layout="arrays")
    await store.open()
    memory = MemoryStore(by_group(GROUP))
    readings = readings_of(GROUP, np.arange(500), time.time_ns() + np.arange(500) * 10**7, np.random.default_rng(2))
    for keeper in (store, memory):
        await keeper.commit(batch_of(GROUP, 1, readings))
    found, expected = await store.ask(Aggregate(group=GROUP)), await memory.ask(Aggregate(group=GROUP))
    for channel in GROUP.channels:
        for figure in EXTREMES:
            np.testing.assert_allclose(found[channel.name][figure], expected[channel.name][figure], rtol=1e-9)
    assert found["count"].tolist() == [500] * GROUP.size


async def test_another_tables_rows_are_no_answer(made: Make, schema: str, look: asyncpg.Connection) -> None:
    store = made(layout="arrays")
    await store.open()
    await filled(store)
    # An array of another size is a row of another width.
    await look.execute(f"UPDATE {schema}.bpm SET ch0 = ch0 || ch0 WHERE trigger_id = 3")
    with pytest.raises(StoreError, match="are not as this store made them") as refused:
        await store.ask(Aggregate(group=GROUP))
    assert "\n" not in str(refused.value)

"""A store in MariaDB that is only asked: how it gives up, what it shows of the server, how it looks for readings."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import numpy as np
import pytest

from backends.base import ReadOnly, StoreError, StoreUnavailable
from backends.columns.partitions import partition_of
from backends.mysql import MysqlStore
from backends.mysql.protocol.connection import READ_BYTES, Connection
from backends.mysql.schema.partitions import LEAST
from backends.mysql.server.address import address_of, connect
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.queries import Aggregate, LedgerTail, TriggersReadings, WindowReadings
from tests.support.batches import batch_of, by_group, group_of, readings_of

Make = Callable[..., MysqlStore]
GROUP = group_of(size=4)
HOUR_NS = 3_600_000_000_000
BOTH = pytest.mark.parametrize("layout", list(Layout))

READER = """
import asyncio, sys
from backends.base import ReadOnly
from schemas.batch import Layout
from schemas.queries import Aggregate
from tests.backends.mysql.test_reading import (GROUP, store_of)

async def main():
    store = store_of(sys.argv[1], sys.argv[2], ReadOnly(connections=1, give_up_s=float(sys.argv[3])), Layout.ROWS)
    await store.ask(Aggregate(group=GROUP))

asyncio.run(main())
"""


def store_of(dsn: str, schema: str, read_only: ReadOnly | None, layout: Layout) -> MysqlStore:
    return MysqlStore(
        DatabaseConfig(dsn=dsn, schema=schema, partition="hour"),
        logger="main",
        groups=by_group(GROUP),
        layouts={"bpm": layout},
        read_only=read_only,
    )


async def filled(store: MysqlStore) -> int:
    """Open it and write four triggers, an hour between them; return the time of the last."""
    await store.open()
    now = time.time_ns()
    times = now - np.arange(4)[::-1] * HOUR_NS
    await store.commit(batch_of(GROUP, 1, readings_of(GROUP, np.arange(4), times, np.random.default_rng(1))))
    return now


@pytest.fixture
async def made(mariadb_dsn: str, schema: str) -> AsyncIterator[Make]:
    """Makes stores in one schema, and closes them."""
    async with AsyncExitStack() as stack:

        def make(read_only: ReadOnly | None = None, layout: Layout = Layout.ROWS) -> MysqlStore:
            store = store_of(mariadb_dsn, schema, read_only, layout)
            stack.push_async_callback(store.close)
            return store

        yield make


@pytest.fixture
async def look(mariadb_dsn: str) -> AsyncIterator[Connection]:
    connection = await connect(address_of(mariadb_dsn), program="tests", timeout_s=30)
    yield connection
    connection.terminate()


@asynccontextmanager
async def locked(dsn: str, table: str) -> AsyncIterator[None]:
    """Nobody reads a table meanwhile."""
    connection = await connect(address_of(dsn), program="tests", timeout_s=30)
    try:
        await connection.run(f"LOCK TABLES {table} WRITE")
        yield
    finally:
        connection.terminate()


async def until(condition: Callable[[], Awaitable[object]], within_s: float) -> None:
    """Wait until an awaitable condition holds."""
    deadline = time.monotonic() + within_s
    while not await condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_it_reads_beside_the_writer_and_writes_nothing(made: Make, look: Connection) -> None:
    writer = made()
    await filled(writer)
    reader = made(ReadOnly(connections=2, give_up_s=30))
    answers = await asyncio.gather(*(reader.ask(LedgerTail(group=GROUP, most=9)) for _ in range(5)))
    assert [len(answer) for answer in answers] == [4] * 5
    assert (await reader.facts()).rows.keys() == {"bpm"}
    await writer.close()
    with pytest.raises(StoreError, match="READ ONLY"):
        await reader.commit(
            batch_of(GROUP, 2, readings_of(GROUP, np.arange(9, 10), np.zeros(1), np.random.default_rng()))
        )


@BOTH
async def test_what_takes_too_long_is_given_up_in_one_line(
    made: Make, mariadb_dsn: str, schema: str, layout: Layout
) -> None:
    await filled(made(layout=layout))
    reader = made(ReadOnly(connections=1, give_up_s=3), layout)
    async with locked(mariadb_dsn, f"{schema}.bpm"):
        with pytest.raises(StoreUnavailable, match=r"took longer than 3 s") as given_up:
            await reader.ask(Aggregate(group=GROUP))
        assert "\n" not in str(given_up.value)
    assert len(await reader.ask(Aggregate(group=GROUP))) == 4


async def test_the_server_gives_up_by_itself(mariadb_dsn: str) -> None:
    connection = await connect(address_of(mariadb_dsn), program="tests", timeout_s=30, give_up_s=0.3)
    with pytest.raises(Exception, match="max_statement_time"):
        await connection.select("SELECT COUNT(*) FROM mysql.seq_1_to_1000000000 WHERE seq % 3 = 5")
    connection.terminate()


async def test_the_server_gives_up_what_a_killed_reader_asked(
    made: Make, mariadb_dsn: str, schema: str, look: Connection
) -> None:
    await filled(made())
    give_up_s = 3

    async def waiting() -> int:
        ((count,),) = await look.fetch(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST"
            f" WHERE ID <> CONNECTION_ID() AND STATE LIKE 'Waiting for%' AND INFO LIKE '%{schema}%'"
        )
        return int(count)

    async def gone() -> bool:
        return await waiting() == 0

    async with locked(mariadb_dsn, f"{schema}.bpm"):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", READER, mariadb_dsn, schema, str(give_up_s))
        )
        await until(waiting, 60)
        process.kill()
        await process.wait()
        # The lock is still held: nothing but the server itself can have ended it.
        await until(gone, give_up_s + 30)


async def test_a_view_of_the_server_counts_and_waits(made: Make, mariadb_dsn: str, schema: str) -> None:
    writer = made()
    await writer.open()
    reader = made(ReadOnly(connections=2, give_up_s=30))
    before = (await reader.view()).counters
    wanted = {"wal_bytes", "cache_hits", "cache_misses", "fsyncs", "lock_waits", "commits", "rollbacks", "deadlocks"}
    assert before.keys() >= wanted
    await filled(writer)
    after = (await reader.view()).counters
    assert all(after[name] >= count for name, count in before.items())
    assert all(after[name] > before[name] for name in ("wal_bytes", "cache_hits", "fsyncs", "commits"))

    async def seen() -> bool:
        return (await reader.view()).waits.get("Waiting for table metadata lock", 0) >= 1

    async with locked(mariadb_dsn, f"{schema}.bpm"):
        asking = asyncio.create_task(reader.ask(Aggregate(group=GROUP)))
        await until(seen, 60)
    await asking


async def test_partitions_have_readings_and_ledger(made: Make, schema: str, look: Connection) -> None:
    writer = made()
    now = await filled(writer)
    first, *hours, rest = (await writer.partitions())["bpm"]
    assert (first.name, first.start_ns, rest.name, rest.end_ns) == ("first", LEAST, "rest", 2**63 - 1)
    assert [hour.start_ns for hour in hours] == [first.end_ns, *(hour.end_ns for hour in hours[:-1])]
    current = partition_of(now, "hour")
    (mine,) = [hour for hour in hours if hour.name == current.label]
    assert (mine.start_ns, mine.end_ns) == (current.start_ns, current.end_ns)
    assert mine.size_bytes >= 2 * 16384

    await look.fetch(f"ANALYZE TABLE {schema}.bpm")
    assert sum(each.rows for each in (await writer.partitions())["bpm"]) == 16


async def test_rows_come_in_chunks_and_the_connection_goes_on(look: Connection) -> None:
    many, chunk_bytes = 1_000_000, 100_000
    text = f"SELECT seq FROM mysql.seq_1_to_{many}"
    sizes = [(len(chunk), chunk.nbytes) async for chunk in look.chunks(text, chunk_bytes)]
    assert sum(rows for rows, _ in sizes) == many
    assert max(size for _, size in sizes) < chunk_bytes + 2 * READ_BYTES
    assert await look.fetch("SELECT 1") == [(1,)]
    # One that is not read to its end is of no more use.
    left = look.chunks(text, chunk_bytes)
    await anext(left)
    await left.aclose()
    assert look.closed


@BOTH
async def test_scattered_triggers_are_read_where_they_are(made: Make, layout: Layout) -> None:
    """An instrument whose clock is an hour late stretches every trigger over others, and time jumps to and fro."""
    store = made(layout=layout)
    await store.open()
    times = time.time_ns() - np.random.default_rng(3).permutation(300) * 10**9
    readings = readings_of(GROUP, np.arange(300), times, np.random.default_rng(1))
    readings["time_ns"][:, 3] -= HOUR_NS
    await store.commit(batch_of(GROUP, 1, readings))
    every = await store.ask(WindowReadings(group=GROUP, start_ns=-(2**63), end_ns=2**63 - 1))
    wanted = np.random.default_rng(2).choice(600, 400, replace=False)
    found = await store.ask(TriggersReadings(group=GROUP, run=1, triggers=tuple(wanted.tolist())))
    np.testing.assert_array_equal(found, every[np.isin(every["trigger"], wanted)])

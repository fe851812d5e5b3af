"""A MongoDB store that is only asked: how it gives up, how it looks by indexes, what it shows of the server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import numpy as np
import pytest

from backends.base import ReadOnly, ServerView, StoreUnavailable
from backends.mongodb import MongodbStore
from backends.mongodb.reading.activity import view_of
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.queries import Aggregate, LedgerTail
from schemas.readings import InstrumentGroup
from tests.support.batches import batch_of, by_group, group_of, readings_of
from tests.support.memory.store import MemoryStore

Make = Callable[..., MongodbStore]
START_NS, PERIOD_NS = 1_700_000_000_000_000_000, 700_000_000


@pytest.fixture
async def made(mongodb_dsn: str, schema: str) -> AsyncIterator[Make]:
    """Makes stores in one database, and closes them."""
    async with AsyncExitStack() as stack:

        def make(group: InstrumentGroup, layout: Layout, read_only: ReadOnly | None = None) -> MongodbStore:
            store = MongodbStore(
                DatabaseConfig(dsn=mongodb_dsn, schema=schema),
                logger="main",
                groups=by_group(group),
                layouts={group.name: layout},
                read_only=read_only,
            )
            stack.push_async_callback(store.close)
            return store

        yield make


async def filled(store: MongodbStore, group: InstrumentGroup) -> MemoryStore:
    """Open it and write some triggers; return a store in memory that has the same."""
    rng = np.random.default_rng(3)
    readings = readings_of(group, np.arange(30), START_NS + np.arange(30) * PERIOD_NS, rng, 2_000_000_000)
    readings["time_ns"][:4, 1] = START_NS  # a clock that stood still
    present = rng.random(readings.shape) < 0.7
    present[:, 0] = True
    present[4:, 2] = False
    present[:, 3] = False
    batch = batch_of(group, 1, readings, present=present)
    memory = MemoryStore(by_group(group))
    await store.open()
    for each in (store, memory):
        await each.commit(batch)
    return memory


async def test_it_reads_beside_the_writer_and_gives_up_in_one_line(made: Make) -> None:
    group = group_of(size=4)
    await filled(made(group, Layout.ROWS), group)
    reader = made(group, Layout.ROWS, ReadOnly(connections=2, give_up_s=60))
    answers = await asyncio.gather(*(reader.ask(LedgerTail(group=group, most=9)) for _ in range(5)))
    assert [len(found) for found in answers] == [9] * 5
    hurried = made(group, Layout.ROWS, ReadOnly(connections=1, give_up_s=1e-6))
    with pytest.raises(StoreUnavailable, match=r"took longer than 1e-06 s, and was given up$"):
        await hurried.ask(Aggregate(group=group))


async def test_a_server_tells_what_it_counts_if_it_counts(made: Make) -> None:
    group = group_of(size=2)
    store = made(group, Layout.ROWS)
    before = await store.view()
    if (await store.facts()).backend == "ferretdb":
        assert before == ServerView()
        return
    await filled(store, group)
    after = await store.view()
    assert all(after.counters[name] >= count for name, count in before.counters.items())
    assert after.counters["wal_bytes"] > before.counters["wal_bytes"]


def test_the_status_of_a_mongod_is_read() -> None:
    """Names and places as https://www.mongodb.com/docs/manual/reference/command/serverStatus/ has them."""
    status = {
        "globalLock": {"currentQueue": {"total": 3, "readers": 3, "writers": 0}},
        "locks": {
            "Global": {"acquireCount": {"r": 900}, "acquireWaitCount": {"r": 2, "W": 1}},
            "Collection": {"acquireCount": {"w": 7}},
        },
        "wiredTiger": {
            "cache": {"pages requested from the cache": 1000, "pages read into cache": 40},
            "log": {"log bytes written": 2**40, "log sync operations": 17},
            "transaction": {"transactions committed": 5, "transactions rolled back": 1},
        },
    }
    counters = {"cache_hits": 960, "cache_misses": 40, "wal_bytes": 2**40, "fsyncs": 17, "commits": 5, "rollbacks": 1}
    assert view_of(status) == ServerView(counters={**counters, "lock_waits": 3}, waits={"Queue:read": 3})
    assert view_of({"wiredTiger": {}}) == ServerView()

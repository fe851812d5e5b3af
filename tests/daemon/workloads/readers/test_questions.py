"""What each kind of workload asks, of every store as readers have it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from backends import open_store
from backends.base import ReadOnly, Store, StoreUnavailable
from daemon.workloads.readers.questions import Questions
from schemas.batch import Layout
from schemas.config import DatabaseConfig, Workload
from schemas.queries import LedgerEnds, Query, TriggersReadings, WindowReadings
from schemas.readings import Array
from tests.support.batches import batch_of, by_group, group_of, readings_of
from tests.support.memory.store import MemoryStore

GROUP = group_of(size=5, dtypes=("float64", "int16"))
TRIGGERS = np.arange(100, 140)
MINUTE_NS = 60_000_000_000

# What is asked and the rows of the answer: 40 triggers, 10 ms apart within one minute, of 5 instruments.
ASKED = [
    ({"kind": "newest"}, 5),
    ({"kind": "trend", "readings": 10}, 10),
    ({"kind": "trend", "readings": 1000}, 40),
    ({"kind": "history"}, 5),
    ({"kind": "snapshot"}, 5),
    ({"kind": "window"}, 200),
    ({"kind": "scan"}, 5),
    ({"kind": "random", "triggers": 7}, 35),
    ({"kind": "random"}, 200),
]


def questions(store: Store, **workload: object) -> Questions:
    return Questions(Workload.model_validate({"name": "w", "clients": 2, **workload}), GROUP, store, seed=3)


async def commit(store: Store) -> None:
    start_ns = time.time_ns() // MINUTE_NS * MINUTE_NS
    readings = readings_of(GROUP, TRIGGERS, start_ns + np.arange(40) * 10_000_000, np.random.default_rng(7))
    await store.commit(batch_of(GROUP, 1, readings))


@asynccontextmanager
async def stores(dsn: str, schema: str, layout: Layout) -> AsyncIterator[tuple[Store, Store]]:
    """A store that writes, and one that is only asked."""
    common = {"logger": "main", "groups": by_group(GROUP), "layouts": {"bpm": layout}, "state_dir": Path("/nowhere")}
    database = DatabaseConfig(dsn=dsn, schema=schema)
    writing = open_store(database, **common)
    reading = open_store(database, **common, read_only=ReadOnly(connections=2, give_up_s=60))
    try:
        await writing.open()
        yield writing, reading
    finally:
        await reading.close()
        await writing.close()


@pytest.fixture(params=["postgresql_dsn", "mariadb_dsn", "mongodb_dsn"])
def dsn(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.mark.parametrize("layout", list(Layout))
async def test_every_kind_is_answered_by_every_database(dsn: str, schema: str, layout: Layout) -> None:
    async with stores(dsn, schema, layout) as (writing, reading):
        assert [await questions(reading, **asked).ask(0) for asked, _ in ASKED] == [0] * len(ASKED)
        await commit(writing)
        assert [(asked, await questions(reading, **asked).ask(0)) for asked, _ in ASKED] == ASKED


class Asked(MemoryStore):
    """A store that keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(by_group(GROUP))
        self.asked: list[Query] = []

    async def ask(self, query: Query) -> Array:
        self.asked.append(query)
        return await super().ask(query)


async def test_what_is_drawn_at_random_can_be_drawn_again_and_each_client_draws_its_own() -> None:
    store = Asked()
    await commit(store)
    for client in (0, 1, 0):
        await questions(store, kind="random", triggers=5).ask(client)
    drawn = [query.triggers for query in store.asked if isinstance(query, TriggersReadings)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert all(100 <= trigger < 140 for triggers in drawn for trigger in triggers)
    assert [len(set(triggers)) for triggers in drawn] == [5, 5, 5]


async def test_a_trend_goes_from_instrument_to_instrument_and_begins_where_its_readings_do() -> None:
    store = Asked()
    await commit(store)
    trend = questions(store, kind="trend", readings=10)
    for _ in range(6):
        assert await trend.ask(3 % 2) == 10
    asked = [query for query in store.asked if hasattr(query, "instrument")]
    assert [query.instrument for query in asked] == [1, 2, 3, 4, 0, 1]
    assert len({query.start_ns for query in asked}) == 1


@pytest.mark.parametrize("kind", ["newest", "trend", "history", "snapshot", "window", "scan", "random"])
async def test_triggers_whose_times_fall_can_be_asked_for(kind: str) -> None:
    store = Asked()
    times = time.time_ns() - np.arange(40) * 10_000_000
    await store.commit(batch_of(GROUP, 1, readings_of(GROUP, TRIGGERS, times, np.random.default_rng(7))))
    asked = questions(store, kind=kind)
    assert [await asked.ask(client) > 0 for client in (0, 1)] == [True, True]


async def test_all_clients_look_for_the_ends_of_the_ledger_once_and_a_failure_is_that_of_each() -> None:
    store = Asked()
    windows = questions(store, kind="window")
    store.fail_with(StoreUnavailable("away"))
    failed = await asyncio.gather(windows.ask(0), windows.ask(1), return_exceptions=True)
    assert [str(each) for each in failed] == ["away", "away"]
    store.fail_with(None)
    await commit(store)
    store.asked.clear()
    assert await asyncio.gather(windows.ask(0), windows.ask(1)) == [200, 200]
    assert await windows.ask(0) == 200
    assert [type(query) for query in store.asked] == [LedgerEnds, WindowReadings, WindowReadings, WindowReadings]


async def test_a_window_lies_within_what_is_stored() -> None:
    store = Asked()
    await commit(store)
    window = questions(store, kind="window", stretch_s=0.1)
    assert all([45 <= await window.ask(0) <= 55 for _ in range(20)])

"""The questions of readers, asked of every store: each answers as the store in memory does."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from backends.base import Store
from schemas.batch import Batch
from schemas.queries import (
    Aggregate,
    LedgerEnds,
    Means,
    Query,
    Snapshot,
    TriggersReadings,
    aggregate_dtype,
    answer_dtype,
    means_dtype,
)
from schemas.readings import Array, InstrumentGroup
from tests.backends.test_store_contract import EVER, Make, maker, opened
from tests.support.batches import batch_of, by_group, group_of, readings_of, with_late
from tests.support.memory.store import MemoryStore

__all__ = ["opened"]

# Statements or bulk make no difference to what is asked.
ANSWERING = ["rows", "arrays", "mysql-rows", "mysql-arrays", "mongodb-rows", "mongodb-arrays", "mongodb-set-arrays"]
MINUTE_NS = 60_000_000_000
TRIGGERS = 60
PERIOD_NS = 400_000_000


@pytest.fixture(params=ANSWERING)
def make(request: pytest.FixtureRequest, schema: str) -> Make:
    return maker(request, request.param, schema)


def batches_of(group: InstrumentGroup, begin_ns: int) -> Iterator[Batch]:
    """Two runs, with missing instruments, one of them for good, NaN and infinities, and readings that come late."""
    rng = np.random.default_rng(11)
    readings = readings_of(group, np.arange(TRIGGERS), begin_ns + np.arange(TRIGGERS) * PERIOD_NS, rng, 3_000_000)
    readings["ch0"][:, 2] = np.nan
    readings["ch0"][rng.random(readings.shape) < 0.1] = np.nan
    readings["ch1"][5:9, 3] = np.inf
    present = rng.random(readings.shape) < 0.9
    present[:, 0] = True
    present[:, 5] = False
    present[TRIGGERS // 8 :, 6] = False
    first = batch_of(group, 1, readings[:40], present=present[:40])
    yield first
    late = readings[[30, 31], [6, 6]]
    after = present[30:32].copy()
    after[:, 6] = True
    revised = np.array([with_late(first.ledger[30 + k], late[k : k + 1], after[k]) for k in range(2)])
    yield batch_of(
        *(group, 2, readings[40:50]),
        present=present[40:50],
        late=late,
        late_of=np.array([0, 1]),
        revised=revised,
    )
    yield batch_of(group, 3, readings[50:], run=2, present=present[50:])


def questions(group: InstrumentGroup, begin_ns: int) -> Iterator[Query]:
    end_ns = begin_ns + TRIGGERS * PERIOD_NS
    yield LedgerEnds(group=group)
    yield Aggregate(group=group)
    for triggers in ((), (7,), (999,), (3, 31, 999, 4, 3, 30, -5), tuple(range(0, 2 * TRIGGERS, 3))):
        for run in (1, 2, 3):
            yield TriggersReadings(group=group, run=run, triggers=triggers)
    for step_ns in (MINUTE_NS, 3_000_000_000, 777_777_777):
        yield Means(group=group, start_ns=begin_ns, end_ns=end_ns, step_ns=step_ns)
        yield Means(group=group, start_ns=EVER[0], end_ns=EVER[1], step_ns=step_ns)
    yield Means(group=group, start_ns=begin_ns + 4 * PERIOD_NS + 1_000_000, end_ns=end_ns // 2, step_ns=MINUTE_NS)
    yield Means(group=group, start_ns=begin_ns + PERIOD_NS, end_ns=begin_ns + 3 * PERIOD_NS, step_ns=MINUTE_NS)
    for at_ns in (begin_ns - 1, begin_ns + 1_500_000, begin_ns + 20 * PERIOD_NS, end_ns, end_ns + 9_000_000_000):
        for within_ns in (1, PERIOD_NS + 1, 2_000_000_000, 3600_000_000_000, 2**63 - 1):
            yield Snapshot(group=group, at_ns=at_ns, within_ns=within_ns)


def assert_same(found: Array, expected: Array, query: Query) -> None:
    """Readings and ledger rows exactly; sums may have been added up in another order."""
    assert found.dtype == expected.dtype, query
    assert len(found) == len(expected), query
    assert expected.dtype.names is not None
    is_made = isinstance(query, Means | Aggregate)
    for name in expected.dtype.names:
        column, wanted = found[name], expected[name]
        if is_made and wanted.dtype.names:
            column, wanted = (np.stack([of[figure] for figure in wanted.dtype.names]) for of in (column, wanted))
        if is_made and wanted.dtype.kind == "f":
            greatest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
            np.testing.assert_allclose(column, wanted, rtol=1e-9, atol=1e-12 * greatest, err_msg=f"{name}: {query}")
        else:
            np.testing.assert_array_equal(column, wanted, f"{name}: {query}")


@pytest.mark.parametrize("begin_ns", [-7_000_000_000, None], ids=["across 1970", "now"])
async def test_every_answer_is_that_of_the_store_in_memory(make: Make, opened: Any, begin_ns: int | None) -> None:
    begin = time.time_ns() if begin_ns is None else begin_ns
    group = group_of(size=8, dtypes=("float64", "float32", "int16", "int64", "uint32"))
    store: Store = await opened(make(group))
    memory = MemoryStore(by_group(group))
    for batch in batches_of(group, begin):
        await store.commit(batch)
        await memory.commit(batch)
    for query in questions(group, begin):
        assert_same(await store.ask(query), await memory.ask(query), query)


async def test_an_empty_store_and_a_single_trigger(make: Make, opened: Any) -> None:
    group = group_of(size=3)
    store: Store = await opened(make(group))
    now = time.time_ns()
    ever = Means(group=group, start_ns=EVER[0], end_ns=EVER[1], step_ns=MINUTE_NS)
    empty = {
        ever: means_dtype(group),
        Aggregate(group=group): aggregate_dtype(group),
        Snapshot(group=group, at_ns=now, within_ns=MINUTE_NS): answer_dtype(group),
        TriggersReadings(group=group, run=1, triggers=(1, 2)): answer_dtype(group),
    }
    for query, dtype in empty.items():
        answer = await store.ask(query)
        assert (answer.shape, answer.dtype) == ((0,), dtype)
    assert len(await store.ask(LedgerEnds(group=group))) == 0
    batch = batch_of(group, 1, readings_of(group, np.arange(4, 5), np.array([now]), np.random.default_rng(1)))
    await store.commit(batch)
    np.testing.assert_array_equal(await store.ask(LedgerEnds(group=group)), batch.ledger)


async def test_triggers_with_an_instrument_whose_clock_is_wrong(make: Make, opened: Any) -> None:
    group = group_of(size=3)
    store: Store = await opened(make(group))
    memory = MemoryStore(by_group(group))
    readings = readings_of(group, np.arange(20), time.time_ns() + np.arange(20) * 1000, np.random.default_rng(1), 10)
    readings["time_ns"][5:, 1] = np.arange(5, 20)
    readings["time_ns"][7, 2] = 2**62
    for keeper in (store, memory):
        await keeper.commit(batch_of(group, 1, readings))
    for triggers in ((5, 6, 7, 19), (7,), tuple(range(-3, 40, 2))):
        query = TriggersReadings(group=group, run=1, triggers=triggers)
        assert_same(await store.ask(query), await memory.ask(query), query)


async def test_values_whose_sums_are_too_great(make: Make, opened: Any) -> None:
    """A broken instrument must not hide what the others measured."""
    group = group_of(size=2, dtypes=("float64",))
    store: Store = await opened(make(group))
    now = time.time_ns()
    readings = readings_of(group, np.arange(4), now + np.arange(4) * 1000, np.random.default_rng(1), 10)
    readings["ch0"] = [[1.0, 1.7e308], [2.0, 1.7e308], [3.0, 1e200], [4.0, -1e200]]
    await store.commit(batch_of(group, 1, readings))
    found = await store.ask(Means(group=group, start_ns=now, end_ns=now + MINUTE_NS, step_ns=2**62))
    assert found["ch0"][0] == 2.5
    aggregate = await store.ask(Aggregate(group=group))
    assert aggregate["ch0"].tolist() == [(2.5, 1.0, 4.0), (np.inf, -1e200, 1.7e308)]


# --- the store in memory, which the others are measured by ------------------------------------------------------------


async def test_a_snapshot_has_the_newest_reading_of_each_instrument() -> None:
    group = group_of(size=8, dtypes=("float64", "float32", "int16", "int64", "uint32"))
    memory = MemoryStore(by_group(group))
    every = {}
    for batch in batches_of(group, 0):
        await memory.commit(batch)
        for run, readings in ((int(batch.ledger["run"][0]), batch.readings[batch.present]), (1, batch.late)):
            every |= {(run, int(one["trigger"]), int(one["instrument"])): int(one["time_ns"]) for one in readings}
    at_ns, within_ns = 35 * PERIOD_NS, 5 * PERIOD_NS
    valid = {key: time_ns for key, time_ns in every.items() if at_ns - within_ns < time_ns <= at_ns}
    found = await memory.ask(Snapshot(group=group, at_ns=at_ns, within_ns=within_ns))
    assert found["instrument"].tolist() == sorted({instrument for _, _, instrument in valid})
    assert found["time_ns"].tolist() == [
        max(time_ns for key, time_ns in valid.items() if key[2] == instrument) for instrument in found["instrument"]
    ]
    assert found["instrument"].tolist() == [0, 1, 2, 3, 4, 6, 7]


async def test_the_newest_run_has_the_ends() -> None:
    group = group_of(size=8, dtypes=("float64", "float32", "int16", "int64", "uint32"))
    memory = MemoryStore(by_group(group))
    for batch in batches_of(group, 0):
        await memory.commit(batch)
    ends = await memory.ask(LedgerEnds(group=group))
    assert ends[["run", "trigger"]].tolist() == [(2, 50), (2, 59)]


async def test_readings_seconds_away_from_their_trigger(make: Make, opened: Any) -> None:
    """Of two triggers the later one may have the earlier reading, and many instruments are seldom there."""
    rng = np.random.default_rng(5)
    group = group_of(size=7, dtypes=("int16",))
    store: Store = await opened(make(group))
    memory = MemoryStore(by_group(group))
    begin_ns, period_ns = time.time_ns(), 100_000_000
    readings = readings_of(group, np.arange(100), begin_ns + np.arange(100) * period_ns, rng, 3_000_000_000)
    present = rng.random(readings.shape) < [1.0, 0.9, 0.5, 0.2, 0.1, 0.05, 0.0]
    batch = batch_of(group, 1, readings, present=present)
    for each in (store, memory):
        await each.commit(batch)
    for at in range(0, 130, 13):
        query = Snapshot(group=group, at_ns=begin_ns + at * period_ns, within_ns=3600_000_000_000)
        assert_same(await store.ask(query), await memory.ask(query), query)

"""Questions about ledger rows, asked of every store."""

import dataclasses
from typing import Any

import numpy as np

from backends.base import Store
from backends.mongodb import MongodbStore
from schemas.batch import Batch
from schemas.ledger import ledger_dtype
from schemas.queries import LedgerRows, SkippedTriggers, Totals
from schemas.readings import InstrumentGroup
from tests.backends.test_store_contract import EVER, Make, make, now_and_then, opened, rng
from tests.support.batches import batch_of, group_of, readings_of

__all__ = ["make", "opened", "rng"]


def batch_with_gaps(
    group: InstrumentGroup, sequence: int, skipped: list[int], rng: np.random.Generator, run: int = 1
) -> Batch:
    """A batch of triggers before each of which so many numbers were skipped."""
    triggers = np.cumsum(np.array(skipped) + 1)
    times = now_and_then(len(skipped)) + run * 10**10
    batch = batch_of(group, sequence, readings_of(group, triggers, times, rng), run=run)
    batch.ledger["skipped"], batch.ledger["epoch"] = skipped, 2**32 - run
    return batch


async def test_ledger_rows_of_some_triggers(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of(size=3, dtypes=("int16",))
    store: Store = await opened(make(group))
    empty = await store.ask(LedgerRows(group=group, run=1, triggers=(1, 2)))
    assert (empty.shape, empty.dtype) == ((0,), ledger_dtype(3))

    batch = batch_with_gaps(group, 1, [0] * 400, rng)
    other = batch_with_gaps(group, 2, [0, 3, 0], rng, run=2)
    for each in (batch, other):
        await store.commit(each)
    for triggers in ((), (7,), (399, 7, 1, 7), (0, 3, 401, 2**62), tuple(range(400, 0, -1))):
        found = await store.ask(LedgerRows(group=group, run=1, triggers=triggers))
        np.testing.assert_array_equal(found, batch.ledger[np.isin(batch.ledger["trigger"], triggers)])
    found = await store.ask(LedgerRows(group=group, run=2, triggers=(5, 2, 1)))
    np.testing.assert_array_equal(found, other.ledger[:2])
    assert not len(await store.ask(LedgerRows(group=group, run=3, triggers=(1,))))


async def test_triggers_after_a_gap(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of(size=3, dtypes=("int16",))
    store: Store = await opened(make(group))
    question = SkippedTriggers(group=group, start_ns=EVER[0], end_ns=EVER[1], most=100)
    empty = await store.ask(question)
    assert (empty.shape, empty.dtype) == ((0,), ledger_dtype(3))

    first = batch_with_gaps(group, 1, [0, 0, 2, 0, 2**40, 0, 1, 0], rng)
    second = batch_with_gaps(group, 2, [7], rng, run=2)
    for each in (first, second):
        await store.commit(each)
    # Below the first of its run there is no gap.
    gaps = first.ledger[[6, 4, 2]]
    np.testing.assert_array_equal(await store.ask(question), gaps)
    np.testing.assert_array_equal(await store.ask(dataclasses.replace(question, most=2)), gaps[:2])
    assert not len(await store.ask(dataclasses.replace(question, most=0)))
    start, end = int(gaps["time_ns"][2]), int(gaps["time_ns"][1])
    within = dataclasses.replace(question, start_ns=start, end_ns=end)
    np.testing.assert_array_equal(await store.ask(within), gaps[2:3])
    assert (await store.ask(Totals(group=group, within_s=60)))[["run", "skipped"]].tolist() == [(1, 2**40 + 3), (2, 0)]


async def test_a_number_that_is_placed_divides_its_gap(make: Make, opened: Any, rng: np.random.Generator) -> None:
    """Rows say of numbers below them what was so when they closed; the question counts anew."""
    group = group_of(size=3, dtypes=("int16",))
    store: Store = await opened(make(group))
    await store.commit(batch_with_gaps(group, 1, [0, 1, 5], rng))  # 1, 3, 9
    for sequence, (number, below) in enumerate(((2, 0), (7, 1), (6, 1)), start=2):
        times = now_and_then(3)[:1] + 500 * sequence
        placed = batch_of(group, sequence, readings_of(group, np.array([number]), times, rng))
        placed.ledger["skipped"] = below
        await store.commit(placed)
    question = SkippedTriggers(group=group, start_ns=EVER[0], end_ns=EVER[1], most=100)
    found = await store.ask(question)
    assert sorted(found[["trigger", "skipped"]].tolist()) == [(6, 2), (9, 1)]
    assert (await store.ask(dataclasses.replace(question, most=1)))["trigger"].tolist() == [9]
    (totals,) = await store.ask(Totals(group=group, within_s=60))
    assert totals["skipped"] == 3


async def test_very_many_late_readings_in_one_batch(make: Make, opened: Any, rng: np.random.Generator) -> None:
    """An instrument that was cut off sends what it has, all in one transaction."""
    group = group_of(size=2, dtypes=("int16",))
    store: Store = await opened(make(group))
    count = 200 if isinstance(store, MongodbStore) else 12_000  # one document at a time
    readings = readings_of(group, np.arange(count), now_and_then(count), rng)
    present = np.tile([True, False], (count, 1))
    first = batch_of(group, 1, readings, present=present)
    await store.commit(first)
    revised = first.ledger.copy()
    revised["arrived"], revised["late"], revised["missing"] = 2, 1, 0
    nothing = readings_of(group, np.arange(0), np.arange(0), rng)
    late = np.ascontiguousarray(readings[:, 1])
    await store.commit(batch_of(group, 2, nothing, late=late, late_of=np.arange(count), revised=revised))
    (totals,) = await store.ask(Totals(group=group, within_s=60))
    assert (totals["triggers"], totals["arrived"]) == (count, 2 * count)

"""Rehearsals, and the streams of a position, asked of every store."""

import dataclasses
from typing import Any

import numpy as np

from backends.base import Store
from schemas.batch import JournalPosition, Stream
from schemas.queries import LedgerTail, Totals
from tests.backends.test_store_contract import Make, everything, make, now_and_then, opened, rng
from tests.support.batches import answers, batch_of, group_of, readings_of, with_late

__all__ = ["make", "opened", "rng"]


async def test_a_rehearsal_leaves_nothing_that_a_commit_would_not_leave(
    make: Make, opened: Any, rng: np.random.Generator
) -> None:
    group = group_of()
    store: Store = await opened(make(group))
    readings = readings_of(group, np.arange(1, 4), now_and_then(3), rng)
    present = np.ones(readings.shape, bool)
    present[1, 3] = False
    first = batch_of(group, 1, readings, present=present)
    await store.rehearse(first)
    assert await store.position("bpm") is None
    await store.commit(first)
    assert (await store.position("bpm")).sequence == 1
    late, row = readings[1, 3:4], first.ledger[1]
    revised = np.array([with_late(row, late, np.ones(group.size, bool))], first.ledger.dtype)
    second = batch_of(
        group, 2, readings[:0], late=late, late_of=np.zeros(1, np.intp), revised=revised, present=present[:0]
    )
    await store.rehearse(second)
    assert (await store.position("bpm")).sequence == 1
    await store.commit(second)
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings.ravel())]))
    ledger = await store.ask(LedgerTail(group=group, most=10))
    assert ledger["arrived"].tolist() == [group.size] * 3


async def test_a_rehearsal_of_what_is_there_changes_nothing(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store: Store = await opened(make(group))
    readings = readings_of(group, np.arange(1, 6), now_and_then(5), rng)
    first = batch_of(group, 1, readings[:3])
    revised = first.ledger[1:2].copy()
    revised["duplicates"] = 1
    second = batch_of(group, 2, readings[:0], revised=revised)
    for batch in (first, second):
        await store.commit(batch)
    # It takes revised rows out before it finds that they are there.
    await store.rehearse(second)
    await store.commit(batch_of(group, 3, readings[3:]))
    ledger = await store.ask(LedgerTail(group=group, most=10))
    assert ledger[["trigger", "duplicates"]].tolist() == [(1, 0), (2, 1), (3, 0), (4, 0), (5, 0)]
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings.ravel())]))


async def test_each_stream_has_a_position_and_an_account_of_its_own(
    make: Make, opened: Any, rng: np.random.Generator
) -> None:
    group = group_of()
    store: Store = await opened(make(group))
    readings = readings_of(group, np.arange(1, 3), now_and_then(2), rng)
    await store.commit(batch_of(group, 7, readings[:1]))
    assert await store.position("bpm", Stream.DEAD_LETTERS) is None
    to = JournalPosition(sequence=9, triggers=1, readings=12)
    retried = dataclasses.replace(batch_of(group, 9, readings[1:]), stream=Stream.DEAD_LETTERS, position=to)
    for _ in range(2):
        await store.commit(retried)
        assert await store.position("bpm", Stream.DEAD_LETTERS) == to
        assert (await store.position("bpm")).sequence == 7
    (totals,) = await store.ask(Totals(group=group, within_s=30))
    assert (totals["sequence"], totals["account_triggers"], totals["account_readings"]) == (7, 1, 12)
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings.ravel())]))

"""Periods of MongoDB that are dropped: what is written meanwhile, who dies meanwhile, and how periods are found."""

import dataclasses
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo.asynchronous.database import AsyncDatabase

from backends.base import StoreError, StoreUnavailable
from backends.columns.partitions import partition_of
from backends.mongodb import MongodbStore
from backends.mongodb.reading import activity
from backends.mongodb.reading.activity import Amounts, Extent, Periods, shared
from schemas.batch import JournalPosition, Layout
from schemas.queries import WindowReadings
from schemas.retention import Dropped, Period, Rule
from tests.backends.mongodb.conftest import Make
from tests.backends.test_store_contract import EVER
from tests.backends.test_store_retention import DAY_NS, filled, noon, period_of, totals, with_readings
from tests.support.batches import batch_of, group_of, readings_of

BOTH = pytest.mark.parametrize("layout", list(Layout))
WRITES = ("insert", "update", "delete")
GROUP = group_of(size=7, dtypes=("float64", "int16"))
DAYS = tuple(range(9, 0, -1))

Hook = Callable[[], Awaitable[None]]


class Dead(ConnectionError):
    """The writer was killed."""


@contextmanager
def before_write(number: int, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Do something before the so many-th write command that is not the hook's own."""
    command, left, hooked = AsyncDatabase.command, number, False

    async def counted(self: Any, name: Any, *args: Any, **options: Any) -> Any:
        nonlocal left, hooked
        if name in WRITES and args[0] != "owners" and not hooked:
            left -= 1
            if left < 0:
                hooked = True
                await hook()
        return await command(self, name, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(AsyncDatabase, "command", counted)
        yield


async def opened(store: MongodbStore) -> MongodbStore:
    await store.open()
    return store


async def see_conserved(store: MongodbStore, layout: Layout, when: object = "") -> None:
    found = await totals(store, GROUP)
    recorded = found["triggers"] if layout is Layout.ARRAYS else found["arrived"]
    assert (found["stored"] + found["dropped"]).tolist() == recorded.tolist(), when
    assert found["account_triggers"][0] == found["triggers"].sum()


class Wrong:
    """Writes triggers of runs from 100 on whose clocks say another day.

    committed: how many runs; a position counts triggers of all runs.
    """

    def __init__(self, rng: np.random.Generator, sequence: int, triggers: int) -> None:
        self._rng = rng
        self._sequence, self._triggers = sequence, triggers
        self.committed = 0

    async def commit(self, store: MongodbStore, at_ns: int) -> None:
        run = 100 + self.committed
        readings = readings_of(GROUP, np.array([run]), np.array([at_ns + run]), self._rng)
        self.committed += 1
        position = JournalPosition(sequence=self._sequence + self.committed, triggers=self._triggers + self.committed)
        batch = batch_of(GROUP, position.sequence, readings, run=run, position=position)
        batch.ledger["closed_ns"] = time.time_ns()
        await store.commit(batch)


@BOTH
@pytest.mark.parametrize("dies", [False, True], ids=["goes-on", "dies"])
async def test_before_every_command_a_wrong_clock_writes_into_what_goes(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout, dies: bool
) -> None:
    monkeypatch.setattr("backends.mongodb.retention.REDUCED_AT_ONCE", 2)
    store = await opened(make(GROUP, layout))
    await filled(store, GROUP, rng, days=DAYS)
    wrong = Wrong(rng, len(DAYS), 4 * len(DAYS))
    for step, day in enumerate(DAYS):
        period = await period_of(store, GROUP, noon(day))
        is_reached = False

        async def write(at_ns: int = noon(day), step: int = step) -> None:
            nonlocal is_reached
            is_reached = True
            await wrong.commit(store, at_ns)
            await see_conserved(store, layout, step)
            if dies:
                raise Dead("killed")

        with before_write(step, write, monkeypatch), suppress(StoreUnavailable):
            await store.drop(period, Rule.SIZE, at_ns=step, patience_s=1)
        if dies and is_reached:
            begun = [each.period for each in (await store.dropped())[GROUP.name] if each.dropped_ns is None]
            assert begun in ([], [period])
            await see_conserved(store, layout, step)
            await store.drop(period, Rule.DISK, at_ns=100 + step, patience_s=1)
        await see_conserved(store, layout, step)
        (mine,) = [each for each in (await store.dropped())[GROUP.name] if each.period == period]
        assert mine.dropped_ns is not None
        assert mine.stored[step + 1] == (4 if layout is Layout.ARRAYS else 4 * GROUP.size - 1)
        if not is_reached:
            break
    else:
        pytest.fail("a drop has more commands than there are days")
    assert step > 3
    assert wrong.committed > 3


async def test_what_comes_after_a_drop_with_its_times_is_kept(make: Make, rng: np.random.Generator) -> None:
    store = await opened(make(GROUP))
    await filled(store, GROUP, rng)
    period = await period_of(store, GROUP, noon(3))
    await store.drop(period, Rule.SIZE, at_ns=1, patience_s=1)
    await Wrong(rng, 3, 12).commit(store, noon(3))
    await see_conserved(store, Layout.ARRAYS)
    mine = WindowReadings(group=GROUP, start_ns=EVER[0], end_ns=EVER[1], by_trigger=True)
    assert np.count_nonzero((await store.ask(mine))["run"] == 100) == GROUP.size


async def test_another_period_waits_for_the_one_that_was_begun(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(make(GROUP))
    await filled(store, GROUP, rng)
    begun, other = [await period_of(store, GROUP, noon(day)) for day in (3, 2)]

    async def die() -> None:
        raise Dead("killed")

    with before_write(1, die, monkeypatch), pytest.raises(StoreUnavailable):
        await store.drop(begun, Rule.SIZE, at_ns=1, patience_s=1)
    with pytest.raises(StoreError, match=f"{begun.name} of group 'bpm' is being dropped, and has to end first"):
        await store.drop(other, Rule.SIZE, at_ns=2, patience_s=1)
    ended = await store.drop(begun, Rule.AGE, at_ns=3, patience_s=1)
    assert (ended.rule, ended.begun_ns, ended.dropped_ns) == (Rule.SIZE, 1, 3)


def with_indexes(store: MongodbStore) -> MongodbStore:
    """Query FerretDB as a MongoDB is queried: it answers the same, without an index."""
    assert store._server is not None
    store._server = dataclasses.replace(store._server, keeps_json=False)
    return store


async def test_periods_found_by_the_index_are_those_of_all_times(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(make(GROUP))
    await filled(store, GROUP, rng, days=(9, 8, 5, 3, 2, 1))
    wrong = Wrong(rng, 6, 24)
    # Where the clock says that it was long ago.
    for at_ns in (1_000_000_007, noon(7) - 400 * DAY_NS, noon(7) - 40 * DAY_NS):
        await wrong.commit(store, at_ns)
    dropped = await store.drop(await period_of(store, GROUP, noon(8)), Rule.SIZE, at_ns=1, patience_s=1)
    found = [await store.partitions(), await with_indexes(store).partitions()]
    days = [9, 8, 5, 3, 2, 1]
    for each in found:
        assert [(period.start_ns + DAY_NS // 2) for period in each[GROUP.name]] == [noon(day) for day in days]
        assert [period.readings_bytes is None for period in each[GROUP.name]] == [day == 8 for day in days]
    gone = next(each for each in found[0][GROUP.name] if each.readings_bytes is None)
    assert (gone.name, gone.rows) == (dropped.period.name, 0)

    # What is known is looked up no more, but for the newest two, and what comes after them.
    looked_up: list[int] = []
    look_up = Periods._look_up

    async def noted(self: Periods, group: Any, at_ns: int, spans: Any) -> int | None:
        looked_up.append(at_ns)
        return await look_up(self, group, at_ns, spans)

    monkeypatch.setattr(Periods, "_look_up", noted)
    again = await store.partitions()
    assert again == found[1]
    assert min(looked_up) >= noon(3)
    await store.drop(await period_of(store, GROUP, noon(9)), Rule.SIZE, at_ns=2, patience_s=1)
    assert [each.start_ns + DAY_NS // 2 for each in await with_readings(store, GROUP)] == [
        noon(day) for day in days if day < 8
    ]
    monkeypatch.setattr(activity, "REMEMBERED_S", -1.0)
    looked_up.clear()
    await store.partitions()
    assert min(looked_up) < noon(9)


async def test_a_long_list_of_periods_is_found_some_at_a_time(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(make(GROUP))
    await filled(store, GROUP, rng, days=(9, 7, 5, 3, 1))
    with_indexes(store)
    monkeypatch.setattr(activity, "AT_ONCE", 4)
    counts = [len(await with_readings(store, GROUP)) for _ in range(4)]
    assert (counts[0], counts[-1]) == (4, 5)


@BOTH
async def test_all_that_is_stored_is_shared_among_the_periods(
    make: Make, rng: np.random.Generator, layout: Layout
) -> None:
    store = await opened(make(GROUP, layout))
    await filled(store, GROUP, rng)
    found = await with_readings(store, GROUP)
    # Each day has as many, in as much time.
    assert [each.rows for each in found] == [4 if layout is Layout.ARRAYS else 4 * GROUP.size] * 3
    facts = await store.facts()
    assert sum(each.rows for each in found) == facts.rows[GROUP.name]
    assert all(each.size_bytes > (each.readings_bytes or 0) > 0 for each in found)


@given(
    lengths=st.lists(st.integers(0, DAY_NS - 1), min_size=1, max_size=20),
    gone=st.integers(0, 10**6),
    triggers=st.integers(0, 10**10),
)
def test_shares_are_all_there_is_and_none_is_empty(lengths: list[int], gone: int, triggers: int) -> None:
    known = [
        Extent(partition_of(number * DAY_NS, "day"), number * DAY_NS, number * DAY_NS + length)
        for number, length in enumerate(lengths)
    ]
    period = Period(group="bpm", name="19691231", start_ns=-DAY_NS, end_ns=0)
    account = [Dropped(period=period, rule=Rule.AGE, begun_ns=1, triggers=gone)]
    found = list(shared(known, account, Amounts(triggers=triggers, rows=7, reading_bytes=100, trigger_bytes=10)))
    assert all(each.rows > 0 for each in found)
    assert abs(sum(each.rows for each in found) / 7 - max(0, triggers - gone)) <= len(found) * (1 + triggers * 1e-15)
    assert all(each.size_bytes * 100 == (each.readings_bytes or 0) * 110 for each in found)

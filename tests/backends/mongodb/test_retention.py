"""Periods of MongoDB that are dropped: what is written meanwhile, who dies meanwhile, and how periods are found."""

import contextlib
import dataclasses
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

from backends.base import BatchRejected, StoreError, StoreUnavailable
from backends.columns.partitions import partition_of
from backends.mongodb import MongodbStore
from backends.mongodb.accounts import Notice
from backends.mongodb.protocol.formats import no_ids
from backends.mongodb.reading import periods
from backends.mongodb.reading.periods import Amounts, Extent, Periods, shared
from schemas.batch import JournalPosition, Layout
from schemas.queries import LedgerTail, WindowReadings
from schemas.retention import Dropped, Period, Rule
from tests.backends.mongodb.test_unfinished import BOTH, GROUP, WRITES, Dead, Make, database, make, opened, rng
from tests.backends.test_store_contract import EVER
from tests.backends.test_store_retention import DAY_NS, filled, noon, period_of, totals, with_readings
from tests.support.batches import batch_of, readings_of, with_late

__all__ = ["database", "make", "rng"]

Hook = Callable[[str], Awaitable[None]]
DAYS = tuple(range(9, 0, -1))


@contextmanager
def before_write(number: int, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Do something before the so many-th write command that is not the hook's own; it gets the collection's name."""
    command, left, hooked = AsyncDatabase.command, number, False

    async def counted(self: Any, name: Any, *args: Any, **options: Any) -> Any:
        nonlocal left, hooked
        if name in WRITES and not hooked:
            left -= 1
            if left < 0:
                hooked = True
                await hook(args[0])
        return await command(self, name, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(AsyncDatabase, "command", counted)
        yield


@pytest.fixture
def in_steps(monkeypatch: pytest.MonkeyPatch, layout: Layout) -> None:
    """A day's documents are removed with several commands."""
    at_once = 2 if layout is Layout.ARRAYS else 10
    monkeypatch.setattr("backends.mongodb.retention.REMOVED_AT_ONCE", at_once)


async def see_conserved(store: MongodbStore, layout: Layout, when: object = "") -> None:
    found = await totals(store, GROUP)
    recorded = found["triggers"] if layout is Layout.ARRAYS else found["arrived"]
    assert (found["stored"] + found["dropped"]).tolist() == recorded.tolist(), when
    assert found["account_triggers"][0] == found["triggers"].sum()


class Wrong:
    """Writes triggers of runs from 100 on whose clocks, or one instrument's clock, say another day.

    committed: how many runs; a position counts triggers of all runs.
    """

    def __init__(self, layout: Layout, rng: np.random.Generator, sequence: int, triggers: int) -> None:
        self._layout = layout
        self._rng = rng
        self._sequence, self._triggers = sequence, triggers
        self.committed = 0

    async def commit(self, store: MongodbStore, at_ns: int) -> None:
        """Commit a trigger of a run of its own that has, or has a reading with, the time of a day."""
        run = 100 + self.committed
        is_arrays = self._layout is Layout.ARRAYS
        times = np.array([at_ns + run if is_arrays else time.time_ns()])
        readings = readings_of(GROUP, np.array([run]), times, self._rng)
        readings["time_ns"][0, 0] = at_ns + run
        position = JournalPosition(
            sequence=self._sequence + self.committed + 1, triggers=self._triggers + self.committed + 1
        )
        batch = batch_of(GROUP, position.sequence, readings, run=run, position=position)
        batch.ledger["closed_ns"] = time.time_ns()
        await store.commit(batch)
        self.committed += 1

    async def see_kept(self, store: MongodbStore) -> None:
        """See that all of it is there."""
        mine = WindowReadings(group=GROUP, start_ns=EVER[0], end_ns=EVER[1], by_trigger=True)
        runs, counts = np.unique((await store.ask(mine))["run"], return_counts=True)
        there = dict(zip(runs.tolist(), counts.tolist(), strict=True))
        assert [there.get(100 + k) for k in range(self.committed)] == [GROUP.size] * self.committed


@BOTH
@pytest.mark.parametrize("dies", [False, True], ids=["goes-on", "dies"])
async def test_before_every_command_a_wrong_clock_writes_into_what_goes(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout, in_steps: None, dies: bool
) -> None:
    store = await opened(make(layout))
    await filled(store, GROUP, rng, days=DAYS)
    wrong = Wrong(layout, rng, len(DAYS), 4 * len(DAYS))
    for step, day in enumerate(DAYS):
        period = await period_of(store, GROUP, noon(day))
        is_reached = False

        async def write(collection: str, at_ns: int = noon(day), store: MongodbStore = store, step: int = step) -> None:
            nonlocal is_reached
            is_reached = True
            # The notice comes and goes between two batches.
            if collection != "positions":
                await wrong.commit(store, at_ns)
            await see_conserved(store, layout, step)
            if dies:
                raise Dead("killed")

        with before_write(step, write, monkeypatch), contextlib.suppress(StoreUnavailable):
            await store.drop(period, Rule.SIZE, at_ns=step, patience_s=1)
        if dies and is_reached:
            store._writers[GROUP.name]._lease.is_held = False  # the dead give nothing back
            store = await opened(make(layout))
            await see_conserved(store, layout, step)
            begun = [each.period for each in (await store.dropped())[GROUP.name] if each.dropped_ns is None]
            ended = [each.period for each in (await store.dropped())[GROUP.name] if each.dropped_ns is not None]
            assert begun in ([], [period])
            # Of the last command nothing depends but that the notice goes.
            if period not in ended:
                await store.drop(period, Rule.DISK, at_ns=100 + step, patience_s=1)
        await see_conserved(store, layout, step)
        await wrong.see_kept(store)
        (mine,) = [each for each in (await store.dropped())[GROUP.name] if each.period == period]
        assert mine.dropped_ns is not None
        assert mine.stored == {step + 1: 4 if layout is Layout.ARRAYS else 4 * GROUP.size - 1}
        if not is_reached:
            break
    else:
        pytest.fail("a drop has more commands than there are days")
    assert step > 4
    assert wrong.committed > 3


@BOTH
@pytest.mark.parametrize("is_begun", [False, True], ids=["whole", "begun"])
async def test_what_is_counted_while_a_period_goes_is_counted_once(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout, is_begun: bool
) -> None:
    """A drop, or what is left of it, goes on from its beginning to its end between two questions of a count."""
    store = await opened(make(layout))
    await filled(store, GROUP, rng, days=DAYS[:4])
    aggregate = AsyncCollection.aggregate
    # One of documents, four of the ledger, and one of the documents of what was begun.
    for question, day in zip((-1, 0, 4, *([5] if is_begun else [])), DAYS, strict=False):
        period = await period_of(store, GROUP, noon(day))
        if is_begun:

            async def die(_: str) -> None:
                raise Dead("killed")

            # Before the account is written.
            with before_write(1, die, monkeypatch), pytest.raises(StoreUnavailable):
                await store.drop(period, Rule.SIZE, at_ns=day, patience_s=1)
        asked_before = -1

        async def asked(
            self: Any, *args: Any, period: Period = period, question: int = question, **options: Any
        ) -> Any:
            nonlocal asked_before
            asked_before += 1
            if (asked_before, question) == (0, -1):
                await store.drop(period, Rule.SIZE, at_ns=9, patience_s=1)
            answer = await aggregate(self, *args, **options)
            if asked_before == question:
                await store.drop(period, Rule.SIZE, at_ns=9, patience_s=1)
            return answer

        with monkeypatch.context() as patched:
            patched.setattr(AsyncCollection, "aggregate", asked)
            await see_conserved(store, layout, question)
        assert period in [each.period for each in (await store.dropped())[GROUP.name] if each.dropped_ns is not None]


@BOTH
async def test_who_was_held_up_removes_nothing_that_came_since(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout, in_steps: None
) -> None:
    """A daemon stands still in the middle of a drop; another takes over, ends it, and writes into the same day."""
    first = await opened(make(layout))
    await filled(first, GROUP, rng)
    wrong = Wrong(layout, rng, 3, 12)
    period = await period_of(first, GROUP, noon(3))

    async def take_over(_: str) -> None:
        other = await opened(make(layout))
        ended = await other.drop(period, Rule.SIZE, at_ns=2, patience_s=1)
        assert ended.dropped_ns == 2
        await wrong.commit(other, noon(3))

    # Before the second of those that remove.
    with before_write(3, take_over, monkeypatch), pytest.raises(StoreUnavailable, match=r"has dropped|been taken over"):
        await first.drop(period, Rule.SIZE, at_ns=1, patience_s=1)
    reader = make(layout)
    await see_conserved(reader, layout)
    await wrong.see_kept(reader)


@BOTH
async def test_a_drop_goes_on_where_the_position_was_lost(
    make: Make,
    database: AsyncDatabase[dict[str, Any]],
    rng: np.random.Generator,
    layout: Layout,
    in_steps: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = await opened(make(layout))
    await filled(store, GROUP, rng)
    period = await period_of(store, GROUP, noon(3))

    async def die(_: str) -> None:
        raise Dead("killed")

    with before_write(3, die, monkeypatch), pytest.raises(StoreUnavailable):
        await store.drop(period, Rule.AGE, at_ns=1, patience_s=1)
    await database.get_collection("positions").update_one({"_id": GROUP.name}, {"$unset": {"dropping": ""}})
    store._writers[GROUP.name]._lease.is_held = False
    store = await opened(make(layout))
    await see_conserved(store, layout)
    ended = await store.drop(period, Rule.SIZE, at_ns=2, patience_s=1)
    assert (ended.rule, ended.begun_ns, ended.dropped_ns) == (Rule.AGE, 1, 2)
    await see_conserved(store, layout)
    assert (await store.dropped())[GROUP.name] == (ended,)


async def test_another_period_waits_for_the_one_that_was_begun(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(make(Layout.ARRAYS))
    await filled(store, GROUP, rng)
    begun, other = [await period_of(store, GROUP, noon(day)) for day in (3, 2)]

    async def die(_: str) -> None:
        raise Dead("killed")

    with before_write(1, die, monkeypatch), pytest.raises(StoreUnavailable):
        await store.drop(begun, Rule.SIZE, at_ns=1, patience_s=1)
    with pytest.raises(StoreError, match=f"{begun.name} of group 'bpm' is being dropped, and has to end first"):
        await store.drop(other, Rule.SIZE, at_ns=2, patience_s=1)


async def test_more_than_can_be_named_waits_for_the_end_of_a_drop(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(make(Layout.ROWS))
    await filled(store, GROUP, rng)
    monkeypatch.setattr("backends.mongodb.writing.beside.KEPT_MOST", 1)
    wrong = Wrong(Layout.ROWS, rng, 3, 12)
    period = await period_of(store, GROUP, noon(3))

    async def write(_: str) -> None:
        await wrong.commit(store, noon(3))
        with pytest.raises(StoreUnavailable, match=f"more than 1 readings came with times of {period.name}"):
            await wrong.commit(store, noon(3))

    with before_write(1, write, monkeypatch):
        await store.drop(period, Rule.SIZE, at_ns=1, patience_s=1)
    await wrong.commit(store, noon(3))
    await see_conserved(store, Layout.ROWS)
    await wrong.see_kept(store)


def with_indexes(store: MongodbStore) -> MongodbStore:
    """Ask FerretDB as a MongoDB is asked: it answers the same, without an index."""
    assert store._server is not None
    store._server = dataclasses.replace(store._server, keeps_json=False)
    return store


@BOTH
async def test_periods_found_by_the_index_are_those_of_the_ledger(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    store = await opened(make(layout))
    await filled(store, GROUP, rng, days=(9, 8, 5, 3, 2, 1))
    wrong = Wrong(layout, rng, 6, 24)
    # Where the clock says that it was long ago.
    for at_ns in (1_000_000_007, noon(7) - 400 * DAY_NS, noon(7) - 40 * DAY_NS):
        await wrong.commit(store, at_ns)
    dropped = await store.drop(await period_of(store, GROUP, noon(8)), Rule.SIZE, at_ns=1, patience_s=1)
    found = [await store.partitions(), await with_indexes(store).partitions()]
    # In rows those triggers are of today, and one of their readings is not.
    days = [9, 8, 5, 3, 2, 1, *([0] if layout is Layout.ROWS else [])]
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
    monkeypatch.setattr(periods, "REMEMBERED_S", -1.0)
    looked_up.clear()
    await store.partitions()
    assert min(looked_up) < noon(9)


async def test_a_long_list_of_periods_is_found_some_at_a_time(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(make(Layout.ARRAYS))
    await filled(store, GROUP, rng, days=(9, 7, 5, 3, 1))
    with_indexes(store)
    monkeypatch.setattr(periods, "AT_ONCE", 4)
    counts = [len(await with_readings(store, GROUP)) for _ in range(4)]
    assert (counts[0], counts[-1]) == (4, 5)


async def test_all_that_is_stored_is_shared_among_the_periods(make: Make, rng: np.random.Generator) -> None:
    store = await opened(make(Layout.ROWS))
    await filled(store, GROUP, rng)
    found = await with_readings(store, GROUP)
    # Each day has as many, in as much time.
    assert [each.rows for each in found] == [4 * GROUP.size - 1] * 3
    facts = await store.facts()
    assert sum(each.rows for each in found) == facts.rows[GROUP.name]
    assert all(each.size_bytes > (each.readings_bytes or 0) > 0 for each in found)


@given(
    lengths=st.lists(st.integers(0, DAY_NS - 1), min_size=1, max_size=20),
    readings=st.integers(0, 10**12),
    gone=st.integers(0, 10**6),
    triggers=st.integers(0, 10**10),
)
def test_shares_are_all_there_is_and_none_is_empty(lengths: list[int], readings: int, gone: int, triggers: int) -> None:
    known = [
        Extent(partition_of(number * DAY_NS, "day"), number * DAY_NS, number * DAY_NS + length)
        for number, length in enumerate(lengths)
    ]
    period = Period(group="bpm", name="19691231", start_ns=-DAY_NS, end_ns=0)
    account = [Dropped(period=period, rule=Rule.AGE, begun_ns=1, triggers=gone)]
    amounts = Amounts(readings=readings, triggers=triggers, reading_bytes=100, trigger_bytes=10)
    found = list(shared(known, account, amounts))
    assert all(each.rows > 0 for each in found)
    assert abs(sum(each.rows for each in found) - readings) <= len(found) * (1 + readings * 1e-15)
    ledger = sum(each.size_bytes - (each.readings_bytes or 0) for each in found)
    assert abs(ledger - 10 * max(0, triggers - gone)) <= 10 * len(found)


@pytest.mark.parametrize("layout", [Layout.ARRAYS])
async def test_what_comes_late_for_arrays_that_go_is_refused_and_not_removed_with_them(
    make: Make, rng: np.random.Generator, layout: Layout
) -> None:
    store = await opened(make(layout))
    await filled(store, GROUP, rng)
    period = await period_of(store, GROUP, noon(3))
    (row,) = await store.ask(LedgerTail(group=GROUP, most=1, run=1))
    late = readings_of(GROUP, row[["trigger"]].tolist(), np.array([row["time_ns"]]), rng)[0, :1]
    nothing = readings_of(GROUP, np.empty(0, np.int64), np.empty(0, np.int64), rng)
    await store._writers[GROUP.name].begin_dropping(
        Notice(period=period, rule=Rule.SIZE, begun_ns=5, kept=no_ids(layout))
    )
    batch = batch_of(
        GROUP,
        9,
        nothing,
        late=late,
        late_of=np.zeros(1, np.intp),
        revised=np.array([with_late(row, late, np.ones(GROUP.size, bool))]),
        position=JournalPosition(sequence=9, triggers=12),
    )
    with pytest.raises(BatchRejected, match="were dropped by retention"):
        await store.commit(batch)
    dropped = await store.drop(period, Rule.SIZE, at_ns=6, patience_s=1)
    assert (dropped.begun_ns, dropped.triggers, dropped.missing) == (5, 4, 1)
    await see_conserved(store, layout)

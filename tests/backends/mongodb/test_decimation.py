"""Periods of MongoDB that are reduced: who dies, who takes over, what comes late and who asks meanwhile."""

import asyncio
import contextlib
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from pymongo.asynchronous.database import AsyncDatabase

from backends.base import StoreBusy, StoreError, StoreUnavailable
from backends.ending import end_tasks
from backends.mongodb import MongodbStore
from backends.mongodb.protocol.formats import data_format
from backends.mongodb.reading import documents
from backends.mongodb.writing.removing import remove
from schemas.batch import JournalPosition, Layout
from schemas.decimation import Bucket, Every
from schemas.queries import InstrumentReadings, LedgerTail, Means, WindowReadings
from schemas.readings import Array
from schemas.retention import Period, Rule
from tests.backends.mongodb.test_retention import before_write, see_conserved
from tests.backends.mongodb.test_unfinished import BOTH, GROUP, Dead, Make, database, dying_after, make, opened, rng
from tests.backends.test_store_decimation import at_once, same_means
from tests.backends.test_store_retention import DAY_NS, filled, noon, period_of
from tests.support.batches import batch_of, readings_of, with_late

__all__ = ["database", "make", "rng"]

BUCKET = Bucket(600_000_000_000)
DAYS = (5, 4, 3, 2, 1)
MOST = 25
"""Days, one for each command of a call and some more."""


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two triggers or two readings a step, and a command for each."""
    monkeypatch.setattr("backends.mongodb.decimation.STEP_READINGS", 2 * GROUP.size)
    monkeypatch.setattr("backends.mongodb.decimation.PARTS", 1)
    monkeypatch.setattr("backends.mongodb.writing.removing.REMOVED_AT_ONCE", 9)


def asked(step_ns: int = BUCKET.ns) -> Means:
    return Means(group=GROUP, start_ns=noon(9), end_ns=noon(0), step_ns=step_ns)


async def reduce(store: MongodbStore, period: Period, how: Bucket | Every = BUCKET, *, at_ns: int = 77) -> Any:
    return await store.decimate(period, how, window_ns=0, at_ns=at_ns, pace=at_once, patience_s=5)


def end_with_lease(store: MongodbStore) -> None:
    """The store is used no more, and has not given the lease back."""
    store._writers[GROUP.name]._lease.is_held = False


async def window_of(store: MongodbStore) -> Array:
    found: Array = await store.ask(WindowReadings(group=GROUP, start_ns=0, end_ns=noon(0)))
    return found


async def see_each_once(store: MongodbStore, stored: int, period: Period) -> None:
    """See that what is found, of all instruments or of one, and what was reduced are all that was stored."""
    found = await window_of(store)
    reduced = sum(each.readings for each in (await store.decimated())[GROUP.name])
    assert len(found) + reduced == stored
    own = np.sort(found["time_ns"][(found["instrument"] == 1) & (found["time_ns"] < period.end_ns)])
    for most in (2, stored):
        query = InstrumentReadings(group=GROUP, instrument=1, start_ns=0, end_ns=period.end_ns, most=most)
        assert (await store.ask(query))["time_ns"].tolist() == own[-most:].tolist()


class Late:
    """What was missing of the last trigger of a day comes."""

    def __init__(self, rng: np.random.Generator, sequence: int) -> None:
        self._rng = rng
        self._sequence, self._triggers = sequence, 4 * sequence

    async def commit(self, store: MongodbStore, run: int) -> Array:
        row = (await store.ask(LedgerTail(group=GROUP, most=1, run=run)))[0]
        late = readings_of(GROUP, row[["trigger"]].tolist(), np.array([row["time_ns"]]), self._rng)[0, :1]
        revised = np.array([with_late(row, late, np.ones(GROUP.size, bool))])
        nothing = readings_of(GROUP, np.empty(0, np.int64), np.empty(0, np.int64), self._rng)
        self._sequence += 1
        position = JournalPosition(sequence=self._sequence, triggers=self._triggers)
        batch = batch_of(
            GROUP, self._sequence, nothing, position=position, late=late, late_of=np.zeros(1, np.intp), revised=revised
        )
        await store.commit(batch)
        return late


@pytest.mark.parametrize(
    ("layout", "how"),
    [(Layout.ROWS, BUCKET), (Layout.ARRAYS, BUCKET), (Layout.ROWS, Every(2))],
    ids=["rows", "arrays", "every"],
)
async def test_a_kill_before_any_command_loses_and_doubles_nothing(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout, how: Bucket | Every
) -> None:
    store = await opened(make(layout))
    await filled(store, GROUP, rng, days=tuple(range(MOST, 0, -1)))
    question = replace(asked(), start_ns=noon(MOST + 1))
    before = await store.ask(question)
    stored = len(await window_of(store))
    for commands, day in zip(count(), range(MOST, 0, -1), strict=False):
        period = await period_of(store, GROUP, noon(day))

        async def die(_: str) -> None:
            raise Dead("killed")

        with before_write(commands, die, monkeypatch):
            try:
                await reduce(store, period, how)
                break
            except StoreUnavailable:
                pass
        end_with_lease(store)
        store = await opened(make(layout))
        await see_conserved(store, layout, commands)
        await see_each_once(store, stored, period)
        if how is BUCKET:
            same_means(await store.ask(question), before, GROUP)
        else:
            assert int((await store.ask(question))["count"].sum()) == len(await window_of(store))
        done = await reduce(store, period, how)
        assert done.ended_ns == 77
        # Of the numbers of four triggers each two are even, and the last one, which lacks a reading, is not.
        assert done.readings == (4 if how is BUCKET else 2) * GROUP.size - 1
    assert commands > (12 if how is BUCKET else 7)
    await see_conserved(store, layout)
    if how is BUCKET:
        same_means(await store.ask(question), before, GROUP)


@pytest.mark.parametrize("layout", [Layout.ARRAYS])
async def test_what_comes_late_at_any_moment_is_found_once(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    store = await opened(make(layout))
    await filled(store, GROUP, rng, days=tuple(range(MOST, 0, -1)))
    question = replace(asked(7 * DAY_NS), start_ns=noon(MOST + 1))
    late = Late(rng, MOST)
    before = int((await store.ask(question))["count"].sum())
    for commands, day in zip(count(), range(MOST, 0, -1), strict=False):
        period = await period_of(store, GROUP, noon(day))
        coming: list[asyncio.Task[Array]] = []

        async def come(_: str, run: int = commands + 1, coming: list[Any] = coming) -> None:
            # It may have to wait for the end of the step.
            task = asyncio.create_task(late.commit(store, run))
            coming.append(task)
            await asyncio.wait([task], timeout=0.2)

        with before_write(commands, come, monkeypatch):
            await reduce(store, period)
        if not coming:
            break
        await coming[0]
        before += 1
        await see_conserved(store, layout, commands)
        assert int((await store.ask(question))["count"].sum()) == before, commands
        done = await reduce(store, period)
        assert done.readings == 4 * GROUP.size
    assert commands > 12
    await see_conserved(store, layout)
    assert int((await store.ask(question))["count"].sum()) == before


@pytest.mark.parametrize("layout", [Layout.ARRAYS])
async def test_who_was_held_up_reduces_nothing_when_another_has_taken_over(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    """Before any of its commands; the other one ends it, and takes what comes late."""
    first = await opened(make(layout))
    await filled(first, GROUP, rng, days=tuple(range(MOST, 0, -1)))
    question = replace(asked(7 * DAY_NS), start_ns=noon(MOST + 1))
    late = Late(rng, MOST)
    expected = int((await first.ask(question))["count"].sum())
    for commands, day in zip(count(), range(MOST, 0, -1), strict=False):
        period = await period_of(first, GROUP, noon(day))
        others: list[MongodbStore] = []

        async def take_over(
            _: str, period: Period = period, run: int = commands + 1, others: list[Any] = others
        ) -> None:
            other = await opened(make(layout))
            others.append(other)
            await reduce(other, period)
            await late.commit(other, run)

        with before_write(commands, take_over, monkeypatch), contextlib.suppress(StoreError):
            await reduce(first, period)
        if not others:
            break
        expected += 1
        end_with_lease(first)
        first = others[0]
        await see_conserved(first, layout, commands)
        assert int((await first.ask(question))["count"].sum()) == expected, commands
        done = await reduce(first, period)
        assert done.readings == 4 * GROUP.size, commands
    assert commands > 12
    await see_conserved(first, layout)
    assert int((await first.ask(question))["count"].sum()) == expected


@BOTH
async def test_a_step_that_has_read_what_a_batch_left_that_is_taken_out_begins_again(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    store = await opened(make(layout))
    await filled(store, GROUP, rng, days=DAYS)
    period = await period_of(store, GROUP, noon(5))
    readings = readings_of(GROUP, np.array([900]), np.array([noon(5) + 5]), rng)
    position = JournalPosition(sequence=6, triggers=21)
    batch = batch_of(GROUP, 6, readings, run=1, position=position)
    with dying_after(2, monkeypatch), pytest.raises(StoreUnavailable):
        await store.commit(batch)
    writer = store._writers[GROUP.name]
    # As if the batch were under way: nothing has looked at what it has left yet.
    positions = (await store._connect())[0].get_collection("positions")
    state = await positions.find_one({"_id": GROUP.name})
    assert state is not None
    assert state["unfinished"]
    breaks = writer._breaks
    done = await reduce(store, period)
    assert writer._breaks > breaks
    assert done.readings == 4 * GROUP.size - 1
    await store.commit(batch)
    await see_conserved(store, layout)
    assert (await reduce(store, period)).readings == 5 * GROUP.size - 1
    await see_conserved(store, layout)


@BOTH
async def test_means_are_the_same_at_every_moment_while_a_period_is_reduced(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    store = await opened(make(layout))
    await filled(store, GROUP, rng, days=DAYS)
    period = await period_of(store, GROUP, noon(4))
    before = await store.ask(asked())
    looks = 0

    async def look() -> None:
        nonlocal looks
        while True:
            same_means(await store.ask(asked()), before, GROUP)
            looks += 1

    looking = asyncio.create_task(look())
    await reduce(store, period)
    while not looks and not looking.done():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await end_tasks(looking)
    if not looking.cancelled():
        looking.result()
    same_means(await store.ask(asked()), before, GROUP)


@BOTH
async def test_means_are_the_same_whatever_step_comes_between_two_questions(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    """All of a pass, from the first question for the account to the last."""
    store = await opened(make(layout))
    await filled(store, GROUP, rng, days=tuple(range(12, 0, -1)))
    question = replace(asked(), start_ns=noon(13))
    before = await store.ask(question)
    find = documents.batches
    for questions, day in zip(count(), range(12, 0, -1), strict=False):
        period = await period_of(store, GROUP, noon(day))
        left, is_reached = questions, False

        def batches(*args: Any, period: Period = period, **options: Any) -> Any:
            async def between() -> Any:
                nonlocal left, is_reached
                left -= 1
                if left == -1:
                    is_reached = True
                    await reduce(store, period)
                async for each in find(*args, **options):
                    yield each

            return between()

        with monkeypatch.context() as patched:
            patched.setattr(documents, "batches", batches)
            same_means(await store.ask(question), before, GROUP)
        if not is_reached:
            break
    assert questions > 2


async def test_a_command_that_comes_late_removes_no_reading_that_came_since(
    make: Make, rng: np.random.Generator
) -> None:
    store = await opened(make(Layout.ARRAYS))
    await filled(store, GROUP, rng, days=DAYS)
    period = await period_of(store, GROUP, noon(5))
    database, server = await store._connect()
    group = store._group(database, server, GROUP.name)
    form = data_format(GROUP, Layout.ARRAYS)
    within = documents.readings_of_period(period, GROUP, Layout.ARRAYS, server)
    taken = form.parse(await documents.found(group.data, within, form))
    await reduce(store, period)
    late = await Late(rng, len(DAYS)).commit(store, 1)
    await remove(group, taken, concern={"w": 1}, target="the server")
    found = await group.readings(within)
    assert found[["trigger", "instrument"]].tolist() == late[["trigger", "instrument"]].tolist()
    await see_conserved(store, Layout.ARRAYS)


@pytest.mark.parametrize("layout", [Layout.ARRAYS])
async def test_a_period_that_is_dropped_is_not_reduced_any_more(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    """The drop begins between the reading and the change of a step, and before its documents are removed."""
    store = await opened(make(layout))
    await filled(store, GROUP, rng, days=tuple(range(MOST, 0, -1)))
    for commands, day in zip(count(), range(MOST, 0, -1), strict=False):
        period = await period_of(store, GROUP, noon(day))
        dropping: list[asyncio.Task[Any]] = []

        async def drop(_: str, period: Period = period, dropping: list[Any] = dropping) -> None:
            dropping.append(asyncio.create_task(store.drop(period, Rule.SIZE, at_ns=5, patience_s=1)))
            await asyncio.wait(dropping, timeout=0.2)

        with before_write(commands, drop, monkeypatch), contextlib.suppress(StoreBusy):
            await reduce(store, period)
        if not dropping:
            break
        dropped = await dropping[0]
        await see_conserved(store, layout, commands)
        account = [each for each in (await store.decimated())[GROUP.name] if each.period == period]
        assert dropped.readings + sum(each.readings for each in account) == 4 * GROUP.size - 1, commands
        assert len(await store.reduced(GROUP, period.start_ns, period.end_ns)) == 0
    assert commands > 8
    with pytest.raises(StoreError, match="no partition"):
        await reduce(store, replace(period, name="20010101", start_ns=0, end_ns=DAY_NS))


async def test_figures_of_an_attempt_that_ended_are_removed_by_the_next(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(make(Layout.ROWS))
    await filled(store, GROUP, rng, days=DAYS)
    period = await period_of(store, GROUP, noon(5))

    async def die(collection: str) -> None:
        raise Dead("killed")

    # Account, attempt, lease, figures of the first step: before it counts.
    with before_write(4, die, monkeypatch), pytest.raises(StoreUnavailable):
        await reduce(store, period)
    figures = database.get_collection(f"{GROUP.name}_reduced")
    assert await figures.count_documents({}) > 0
    assert len(await store.reduced(GROUP, period.start_ns, period.end_ns)) == 0
    end_with_lease(store)
    store = await opened(make(Layout.ROWS))
    await reduce(store, period)
    assert await figures.count_documents({}) == len(await store.reduced(GROUP, period.start_ns, period.end_ns))
    await see_conserved(store, Layout.ROWS)

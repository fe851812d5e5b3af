"""Periods of MongoDB that are reduced: commands that come late, two daemons at once, what is counted, what is asked."""

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from pymongo.asynchronous.database import AsyncDatabase

from backends.base import StoreError, StoreUnavailable
from backends.mongodb import MongodbStore
from backends.mongodb.accounts import ACCOUNTS, account_of
from backends.mongodb.reading import documents
from backends.mongodb.reading.counting import ledger_sum
from schemas.batch import JournalPosition, Layout, Stream
from schemas.decimation import Every
from schemas.marks import Mark
from schemas.retention import Rule
from tests.backends.mongodb.test_decimation import (
    BUCKET,
    DAYS,
    Late,
    asked,
    end_with_lease,
    reduce,
    small_steps,
)
from tests.backends.mongodb.test_retention import before_write, see_conserved
from tests.backends.mongodb.test_unfinished import BOTH, GROUP, WRITES, Dead, Make, database, make, opened, rng
from tests.backends.test_store_decimation import at_once
from tests.backends.test_store_retention import filled, noon, period_of
from tests.support.batches import batch_of, readings_of

__all__ = ["database", "make", "rng", "small_steps"]


async def die(_: str) -> None:
    raise Dead("killed")


async def accounts_of(store: MongodbStore) -> list[dict[str, Any]]:
    found = (await store._connect())[0].get_collection(ACCOUNTS)
    return await found.find({"rule": str(BUCKET)}).to_list()


class Held:
    """Commands that nobody had an answer to, and that the server carries out later."""

    def __init__(self) -> None:
        self._held: list[Any] = []

    @contextmanager
    def first(self, monkeypatch: pytest.MonkeyPatch, what: Any) -> Iterator[None]:
        """Hold the first update of an account that sets or says something."""
        command = AsyncDatabase.command

        async def holding(database: Any, name: Any, *args: Any, **options: Any) -> Any:
            if name == "update" and args[0] == ACCOUNTS and not self._held and what(options["updates"][0]):
                self._held.append(lambda: command(database, name, *args, **options))
                raise Dead("it does not answer in time")
            return await command(database, name, *args, **options)

        with monkeypatch.context() as patched:
            patched.setattr(AsyncDatabase, "command", holding)
            yield
        assert self._held

    @contextmanager
    def number(self, monkeypatch: pytest.MonkeyPatch, number: int) -> Iterator[None]:
        """Hold the so many-th write command."""
        command, left = AsyncDatabase.command, number

        async def holding(database: Any, name: Any, *args: Any, **options: Any) -> Any:
            nonlocal left
            if name in WRITES:
                left -= 1
                if left == -1:
                    self._held.append(lambda: command(database, name, *args, **options))
                    raise Dead("it does not answer in time")
            return await command(database, name, *args, **options)

        with monkeypatch.context() as patched:
            patched.setattr(AsyncDatabase, "command", holding)
            yield

    @property
    def is_any(self) -> bool:
        """Whether there was one."""
        return bool(self._held)

    async def come(self) -> None:
        """Carry it out."""
        await self._held[0]()


def counts_a_step(update: dict[str, Any]) -> bool:
    return "step" in update["q"] and update["u"]["$set"].get("step") == update["q"]["step"] + 1


def begins_an_attempt(update: dict[str, Any]) -> bool:
    return "owner" in update["u"].get("$set", {}) and "turn" in update["q"]


@BOTH
async def test_two_that_begin_a_period_at_once_have_one_account(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    first = await opened(make(layout))
    await filled(first, GROUP, rng, days=DAYS)
    period = await period_of(first, GROUP, noon(5))
    others: list[MongodbStore] = []

    async def take_over(_: str) -> None:
        others.append(await opened(make(layout)))
        await reduce(others[0], period, at_ns=78)

    with before_write(0, take_over, monkeypatch), contextlib.suppress(StoreError):
        await reduce(first, period, at_ns=77)
    end_with_lease(first)
    assert [each["begun_ns"] for each in await accounts_of(others[0])] == [78]
    await see_conserved(others[0], layout)


async def test_who_begins_an_attempt_late_takes_no_late_reading_out_of_the_account(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await opened(make(Layout.ARRAYS))
    await filled(first, GROUP, rng, days=DAYS)
    period = await period_of(first, GROUP, noon(5))
    await reduce(first, period)
    held = Held()
    with held.first(monkeypatch, begins_an_attempt), pytest.raises(StoreUnavailable):
        await reduce(first, period)
    end_with_lease(first)
    second = await opened(make(Layout.ARRAYS))
    await Late(rng, len(DAYS)).commit(second, 1)
    await see_conserved(second, Layout.ARRAYS, "before")
    await held.come()
    await see_conserved(second, Layout.ARRAYS, "after")
    assert (await reduce(second, period)).readings == 4 * GROUP.size
    await see_conserved(second, Layout.ARRAYS, "reduced")


@BOTH
async def test_a_step_that_counts_only_later_takes_no_late_reading_with_it(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    store = await opened(make(layout))
    await filled(store, GROUP, rng, days=DAYS)
    monkeypatch.setattr("backends.mongodb.decimation.STEP_READINGS", 9 * GROUP.size)
    question = replace(asked(), start_ns=noon(6))
    before = int((await store.ask(question))["count"].sum())
    period = await period_of(store, GROUP, noon(5))
    held = Held()
    with held.first(monkeypatch, counts_a_step), pytest.raises(StoreUnavailable):
        await reduce(store, period)
    await Late(rng, len(DAYS)).commit(store, 1)
    await held.come()
    await see_conserved(store, layout)
    await reduce(store, period)
    await see_conserved(store, layout)
    assert int((await store.ask(question))["count"].sum()) == before + 1


@BOTH
async def test_a_step_that_counts_only_later_reduces_nothing_that_was_dropped(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    store = await opened(make(layout))
    await filled(store, GROUP, rng, days=DAYS)
    period = await period_of(store, GROUP, noon(5))
    held = Held()
    with held.first(monkeypatch, counts_a_step), pytest.raises(StoreUnavailable):
        await reduce(store, period)
    await store.drop(period, Rule.SIZE, at_ns=5, patience_s=1)
    await held.come()
    await see_conserved(store, layout)


async def test_who_could_not_make_the_attempts_its_own_does_so_before_it_writes(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the lease by then."""
    first = await opened(make(Layout.ARRAYS))
    await filled(first, GROUP, rng, days=DAYS)
    monkeypatch.setattr("backends.mongodb.decimation.STEP_READINGS", 9 * GROUP.size)
    period = await period_of(first, GROUP, noon(5))
    held = Held()
    with held.first(monkeypatch, counts_a_step), pytest.raises(StoreUnavailable):
        await reduce(first, period)
    end_with_lease(first)
    other = make(Layout.ARRAYS)
    with before_write(1, die, monkeypatch), pytest.raises(StoreUnavailable):
        await other._writers[GROUP.name].position(Stream.JOURNAL)
    await Late(rng, len(DAYS)).commit(other, 1)
    await held.come()
    await see_conserved(other, Layout.ARRAYS)
    assert (await reduce(other, period)).readings == 4 * GROUP.size
    await see_conserved(other, Layout.ARRAYS)


async def test_batches_are_committed_while_the_ledger_of_a_period_is_summed_up(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(make(Layout.ROWS))
    await filled(store, GROUP, rng, days=DAYS)
    period = await period_of(store, GROUP, noon(5))
    readings = readings_of(GROUP, np.array([900]), np.array([noon(1) + 5]), rng)
    batch = batch_of(GROUP, 6, readings, run=5, position=JournalPosition(sequence=6, triggers=21))

    async def summed(*args: Any) -> int:
        async with asyncio.timeout(5):
            await store.commit(batch)
        return await ledger_sum(*args)

    monkeypatch.setattr("backends.mongodb.decimation.ledger_sum", summed)
    await reduce(store, period)
    await see_conserved(store, Layout.ROWS)


async def test_figures_of_an_attempt_are_removed_though_the_next_one_is_killed_too(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(make(Layout.ROWS))
    await filled(store, GROUP, rng, days=DAYS)
    period = await period_of(store, GROUP, noon(5))
    figures = database.get_collection(f"{GROUP.name}_reduced")
    with before_write(4, die, monkeypatch), pytest.raises(StoreUnavailable):
        await reduce(store, period)
    assert await figures.count_documents({}) > 0
    for writes in (1, 2, 3):
        with before_write(writes, die, monkeypatch), pytest.raises(StoreUnavailable):
            await reduce(store, period)
    await reduce(store, period)
    assert await figures.count_documents({}) == len(await store.reduced(GROUP, period.start_ns, period.end_ns))


async def test_the_account_says_what_a_count_says_of_a_late_reading_that_did_not_come(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(make(Layout.ARRAYS))
    await filled(store, GROUP, rng, days=DAYS)
    await reduce(store, await period_of(store, GROUP, noon(5)))
    late = Late(rng, len(DAYS))
    # Named in the account, and nothing else but the note.
    with before_write(2, die, monkeypatch), pytest.raises(StoreUnavailable):
        await late.commit(store, 1)
    (account,) = (await store.decimated())[GROUP.name]
    assert sum(account.stored.values()) == 4
    await see_conserved(store, Layout.ARRAYS)


async def test_figures_of_other_times_are_not_read_for_a_wrong_clock(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reading of an array has a bucket by its own time, which may be years away."""
    store = await opened(make(Layout.ARRAYS))
    await filled(store, GROUP, rng, days=DAYS)
    readings = readings_of(GROUP, np.array([900]), np.array([noon(5) + 5]), rng)
    readings["time_ns"][0, 0] = 5
    await store.commit(batch_of(GROUP, 6, readings, run=9, position=JournalPosition(sequence=6, triggers=21)))
    find, asked_for = documents.figures_of_time, []

    def noted(start_ns: int, end_ns: int, instrument: int | None = None) -> Any:
        asked_for.append((start_ns, end_ns))
        return find(start_ns, end_ns, instrument)

    monkeypatch.setattr(documents, "figures_of_time", noted)
    await reduce(store, await period_of(store, GROUP, noon(5)))
    assert asked_for
    assert max(end_ns - start_ns for start_ns, end_ns in asked_for) < 86_400 * 10**9
    await see_conserved(store, Layout.ARRAYS)


async def test_only_what_an_attempt_has_left_is_looked_for(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the figures of all attempts that ended, with each late reading and each start."""
    store = await opened(make(Layout.ROWS))
    await filled(store, GROUP, rng, days=DAYS)
    period = await period_of(store, GROUP, noon(5))
    await reduce(store, period)
    database, _ = await store._connect()
    assert (await account_of(database, GROUP.name, Layout.ROWS)).reduced_of(period)
    deletes, command = 0, AsyncDatabase.command

    async def counted(self: Any, name: Any, *args: Any, **options: Any) -> Any:
        nonlocal deletes
        deletes += name == "delete"
        return await command(self, name, *args, **options)

    monkeypatch.setattr(AsyncDatabase, "command", counted)
    await reduce(store, period)
    assert deletes == 0


@BOTH
@pytest.mark.parametrize("stays", ["ends", "all"])
async def test_what_stayed_is_counted_with_its_period(
    make: Make, rng: np.random.Generator, layout: Layout, stays: str
) -> None:
    """Also before the first and after the last that was taken out."""
    store = await opened(make(layout))
    await filled(store, GROUP, rng, days=DAYS)
    period = await period_of(store, GROUP, noon(5))
    if stays == "all":
        await store.keep_mark(Mark(id=uuid4(), time_ns=noon(5), text="it trips"))
    window_ns = 12 * 3600 * 10**9 if stays == "all" else 0
    how = BUCKET if stays == "all" else Every(2)
    done = await store.decimate(period, how, window_ns=window_ns, at_ns=77, pace=at_once, patience_s=5)
    assert done.triggers == 4
    (there,) = [each for each in (await store.partitions())[GROUP.name] if each.name == period.name]
    gone = sum(done.stored.values())
    assert there.rows == (4 if layout is Layout.ARRAYS else 4 * GROUP.size - 1) - gone
    await see_conserved(store, layout)


async def test_a_server_that_does_not_answer_a_step_holds_up_no_late_reading(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is there, and nothing comes."""
    monkeypatch.setattr("backends.mongodb.writing.writer.STEP_WITHIN_S", 1.0)
    store = await opened(make(Layout.ARRAYS))
    await filled(store, GROUP, rng, days=DAYS)
    period = await period_of(store, GROUP, noon(5))
    coming: list[asyncio.Task[Any]] = []

    async def hang(_: str) -> None:
        coming.append(asyncio.create_task(Late(rng, len(DAYS)).commit(store, 1)))
        await asyncio.Event().wait()

    async with asyncio.timeout(20):
        # Account, attempt, lease, figures of the first step.
        with before_write(3, hang, monkeypatch), pytest.raises(StoreUnavailable):
            await reduce(store, period)
        await coming[0]
        assert (await reduce(store, period)).readings == 4 * GROUP.size
    await see_conserved(store, Layout.ARRAYS)


async def test_late_readings_wait_for_a_step_of_any_who_reduce_their_period(
    make: Make, rng: np.random.Generator
) -> None:
    store = await opened(make(Layout.ARRAYS))
    await filled(store, GROUP, rng, days=DAYS)
    writer, period = store._writers[GROUP.name], await period_of(store, GROUP, noon(5))
    async with writer.reducing(period):
        async with writer.reducing(period):
            pass
        async with writer.in_step():
            late = asyncio.create_task(Late(rng, len(DAYS)).commit(store, 1))
            done, _ = await asyncio.wait([late], timeout=0.5)
            assert not done
        await late


async def test_how_much_is_done_is_told_up_to_the_end(make: Make, rng: np.random.Generator) -> None:
    """Also here, where no room is given back in a second half."""
    store = await opened(make(Layout.ROWS))
    await filled(store, GROUP, rng, days=DAYS)
    told: list[float] = []

    async def pace(done: float) -> None:
        told.append(done)

    period = await period_of(store, GROUP, noon(5))
    await store.decimate(period, BUCKET, window_ns=0, at_ns=77, pace=pace, patience_s=5)
    assert told == sorted(told)
    assert (told[0], told[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("comes", "takes_over"), [("after-late", False), ("after-late", True), ("after-reducing", False)]
)
async def test_any_command_that_comes_late_changes_nothing(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, takes_over: bool, comes: str
) -> None:
    """Of a step of a period, given up without an answer."""
    store = await opened(make(Layout.ARRAYS))
    days = tuple(range(16, 0, -1))
    await filled(store, GROUP, rng, days=days)
    monkeypatch.setattr("backends.mongodb.decimation.STEP_READINGS", 9 * GROUP.size)
    question = replace(asked(), start_ns=noon(17))
    expected, late = int((await store.ask(question))["count"].sum()), Late(rng, len(days))
    for commands, day in zip(count(), days, strict=False):
        period = await period_of(store, GROUP, noon(day))
        held = Held()
        with held.number(monkeypatch, commands), contextlib.suppress(StoreUnavailable):
            await reduce(store, period)
        if not held.is_any:
            break
        if takes_over:
            end_with_lease(store)
            store = await opened(make(Layout.ARRAYS))
        if comes == "after-reducing":
            await reduce(store, period)
            await held.come()
        await late.commit(store, commands + 1)
        expected += 1
        if comes == "after-late":
            await held.come()
        await see_conserved(store, Layout.ARRAYS, commands)
        done = await reduce(store, period)
        assert done.readings == 4 * GROUP.size, commands
        await see_conserved(store, Layout.ARRAYS, commands)
        assert int((await store.ask(question))["count"].sum()) == expected, commands
    assert commands > 6

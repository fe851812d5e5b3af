"""Moving a period elsewhere, asked of every store that has places: beside writing and reading, and after a kill."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.base import Move, Partition, PeriodTouched, Store, StoreBusy, StoreError, Tiered
from schemas.batch import JournalPosition
from schemas.queries import LedgerTail, Totals
from schemas.readings import Array
from schemas.retention import Period, Rule
from tests.backends.test_store_contract import Make, everything, maker, opened, rng
from tests.backends.test_store_retention import DAY_NS, Dying, Killed, noon
from tests.support.batches import batch_of, group_of, readings_of, with_late
from tests.support.places import MysqlPlaces, Places, PostgresqlPlaces
from tests.support.servers import server_folder

__all__ = ["opened", "rng"]

GROUP = group_of()
TRIGGERS = 400
"""Of a day: some fifty pages in the layout `rows`."""
TIERED = ["rows", "arrays", "mysql-rows", "mysql-arrays"]
CHANGES = max(len(PostgresqlPlaces.changes), len(MysqlPlaces.changes))
MOVED_WITHIN_S = 60.0


@pytest.fixture(params=TIERED)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(request: pytest.FixtureRequest, kind: str, schema: str) -> Make:
    return maker(request, kind, schema)


@pytest.fixture
def dsn(request: pytest.FixtureRequest, kind: str) -> str:
    """Of the server; it is started outside of the loop of a test."""
    return str(request.getfixturevalue("mariadb_dsn" if kind.startswith("mysql") else "postgresql_dsn"))


@pytest.fixture
async def places(kind: str, dsn: str, schema: str) -> AsyncIterator[Places]:
    if not kind.startswith("mysql"):
        async with PostgresqlPlaces.opened(dsn, schema) as made:
            yield made
        return
    with server_folder() as folder:
        async with MysqlPlaces.opened(dsn, schema, Path(folder) / "slow") as also_made:
            yield also_made
            await also_made.run(f"DROP DATABASE `{schema}`")


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.postgresql.moving.STEP_PAGES", 4)
    monkeypatch.setattr("backends.mysql.moving.STEP_BYTES", 50_000)


@pytest.fixture
async def store(places: Places, make: Make, opened: Callable[..., Any], rng: np.random.Generator) -> Store:
    """A store with two days of readings, a run each."""
    made = await opened(make(GROUP))
    for number, day in enumerate((2, 1), 1):
        await write(made, rng, number, noon(day))
    return made


async def write(store: Store, rng: np.random.Generator, number: int, time_ns: int) -> Array:
    times = time_ns + np.arange(TRIGGERS) * 1_000_000
    readings = readings_of(GROUP, np.arange(TRIGGERS) + 1000 * number, times, rng)
    to = JournalPosition(sequence=number, triggers=TRIGGERS * number, readings=TRIGGERS * GROUP.size * number)
    await store.commit(batch_of(GROUP, number, readings, run=number, position=to))
    return readings


async def add_late(store: Store, rng: np.random.Generator, sequence: int, run: int = 1) -> None:
    """A reading more of the last trigger of a run, where it is."""
    row = (await store.ask(LedgerTail(group=GROUP, most=1, run=run)))[0]
    late = readings_of(GROUP, row[["trigger"]].tolist(), np.array([row["time_ns"]]), rng)[0, :1]
    revised = np.array([with_late(row, late, np.ones(GROUP.size, bool))])
    nothing = readings_of(GROUP, np.empty(0, np.int64), np.empty(0, np.int64), rng)
    await store.commit(
        batch_of(
            GROUP,
            sequence,
            nothing,
            late=late,
            late_of=np.zeros(1, np.intp),
            revised=revised,
            position=JournalPosition(sequence=sequence, triggers=2 * TRIGGERS, readings=0),
        )
    )


async def partition_of(store: Store, time_ns: int) -> Partition:
    found = (await store.partitions())[GROUP.name]
    (one,) = [each for each in found if each.name.isdigit() and each.start_ns <= time_ns < each.end_ns]
    return one


async def period_of(store: Store, time_ns: int) -> Period:
    found = await partition_of(store, time_ns)
    return Period(group=GROUP.name, name=found.name, start_ns=found.start_ns, end_ns=found.end_ns)


async def at_once(done: float) -> None:
    """The pace of a test."""


async def try_to_move(store: Store, place: str | None, pace: Any = at_once, patience_s: float = 5) -> None:
    assert isinstance(store, Tiered)
    await store.move(await period_of(store, noon(2)), place, pace=pace, patience_s=patience_s)


async def move(store: Store, place: str | None, pace: Any = at_once, patience_s: float = 5) -> None:
    """Move the older day; what others are at for a moment, such as other tests, is waited for."""
    until_s = time.monotonic() + MOVED_WITHIN_S
    while True:
        try:
            return await try_to_move(store, place, pace, patience_s)
        except StoreBusy:
            if time.monotonic() > until_s:
                raise
            await asyncio.sleep(0.05)


@pytest.mark.usefixtures("small_steps")
async def test_a_period_is_moved_there_and_back_and_all_of_it_is_as_it_was(store: Store, places: Places) -> None:
    assert isinstance(store, Tiered)
    before, there = await everything(store, GROUP), await places.tables()
    was = await partition_of(store, noon(2))
    assert was.may_move
    steps: list[float] = []

    async def pace(done: float) -> None:
        steps.append(done)

    for place in (places.slow, None):
        steps.clear()
        await move(store, place, pace)
        assert steps == sorted(steps)
        assert (steps[0], steps[-1]) == (0.0, 1.0)
        assert len(steps) > 3
        found = await partition_of(store, noon(2))
        assert (found.place, found.name, found.start_ns, found.end_ns) == (place, was.name, was.start_ns, was.end_ns)
        assert found.readings_bytes
        assert found.readings_bytes > 8192
        assert found.rows
        np.testing.assert_array_equal(await everything(store, GROUP), before)
        assert await places.tables() == there
        assert await store.moves() == ()
    assert (await partition_of(store, noon(1))).place is None


async def test_what_lies_there_already_is_left_alone(store: Store, places: Places) -> None:
    await move(store, places.slow)
    steps: list[float] = []

    async def pace(done: float) -> None:
        steps.append(done)

    await move(store, places.slow, pace)
    assert steps == []


@pytest.mark.usefixtures("small_steps")
async def test_readings_that_come_during_the_copy_stay_and_the_copy_goes(
    store: Store, places: Places, rng: np.random.Generator, kind: str
) -> None:
    there = await places.tables()
    period = await period_of(store, noon(2))
    sequence = 2

    async def pace(done: float) -> None:
        nonlocal sequence
        if done == 1.0 and sequence == 2:
            sequence += 1
            await add_late(store, rng, sequence)

    with pytest.raises(PeriodTouched, match=f"{period.name} of group bpm was changed while it was copied"):
        await move(store, places.slow, pace)
    assert await places.tables() == there
    after = await everything(store, GROUP)
    assert len(after) == 2 * TRIGGERS * GROUP.size + kind.endswith("rows")
    assert (await partition_of(store, noon(2))).place is None
    await move(store, places.slow)
    assert (await partition_of(store, noon(2))).place == places.slow
    np.testing.assert_array_equal(await everything(store, GROUP), after)
    # It is written to where it lies now, too.
    await add_late(store, rng, sequence + 1)
    assert len(await everything(store, GROUP)) == len(after) + kind.endswith("rows")


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("number", range(CHANGES))
async def test_any_change_is_noticed(store: Store, places: Places, number: int) -> None:
    if number >= len(places.changes):
        pytest.skip("that is one of the other database")
    assert isinstance(store, Tiered)
    name = (await period_of(store, noon(2))).name
    is_last: list[float] = []

    async def pace(done: float) -> None:
        if done == 1.0:
            is_last.append(done)
            await places.run(places.changes[number].format(name=name))

    with pytest.raises(PeriodTouched):
        await move(store, places.slow, pace)
    assert is_last
    assert (await partition_of(store, noon(2))).place is None
    assert await store.moves() == ()


async def test_a_reader_puts_the_exchange_off_and_nothing_is_copied_twice(store: Store, places: Places) -> None:
    assert isinstance(store, Tiered)
    before = await everything(store, GROUP)
    period = await period_of(store, noon(2))
    steps: list[float] = []

    async def pace(done: float) -> None:
        steps.append(done)

    async with places.reading():
        with pytest.raises(StoreBusy):
            await try_to_move(store, places.slow, pace, patience_s=0.05)
        assert await store.moves() == (Move(group="bpm", name=period.name, place=places.slow),)
        assert (await partition_of(store, noon(2))).place is None
        # Others read and write meanwhile.
        np.testing.assert_array_equal(await everything(store, GROUP), before)
    assert steps[-1] == 1.0
    steps.clear()
    await move(store, places.slow, pace)
    assert steps == []
    assert (await partition_of(store, noon(2))).place == places.slow
    np.testing.assert_array_equal(await everything(store, GROUP), before)


@pytest.mark.usefixtures("small_steps")
async def test_a_kill_before_any_statement_loses_nothing_and_the_next_goes_on(store: Any, places: Places) -> None:
    before, there = await everything(store, GROUP), await places.tables()
    period = await period_of(store, noon(2))
    place: str | None = places.slow
    for steps in range(1000):
        # Others' transactions of that moment may put it off.
        with contextlib.suppress(Killed, StoreBusy):
            async with store._reader() as connection:
                moving = store._moving(Dying(connection, steps), store._tables[GROUP.name], patience_s=5)
                await moving.move(period, place, at_once)
                break
        np.testing.assert_array_equal(await everything(store, GROUP), before)
        moves = await store.moves()
        assert [(each.group, each.name) for each in moves] in ([], [("bpm", period.name)])
        if steps % 2:
            for each in moves:
                await store.give_up_move(each, patience_s=5)
            if (await partition_of(store, noon(2))).place != place:
                assert await places.tables() == there
        await move(store, place)
        np.testing.assert_array_equal(await everything(store, GROUP), before)
        assert await places.tables() == there, steps
        assert (await partition_of(store, noon(2))).place == place
        place = None if place else places.slow
    else:
        pytest.fail("a move has more statements than that")
    assert steps > 15


@pytest.mark.usefixtures("small_steps")
async def test_a_half_made_copy_goes_on_where_it_was_and_one_for_another_place_begins_anew(
    store: Store, places: Places
) -> None:
    assert isinstance(store, Tiered)
    before = await everything(store, GROUP)
    steps: list[float] = []

    async def pace(done: float) -> None:
        steps.append(done)
        if len(steps) == 4:
            raise Killed

    with pytest.raises(Killed):
        await move(store, places.slow, pace)
    reached = steps[-1]
    assert reached > 0
    steps[:] = [0.0] * 4

    await move(store, places.slow, pace)
    assert steps[4] == reached
    np.testing.assert_array_equal(await everything(store, GROUP), before)

    steps.clear()
    with pytest.raises(Killed):
        await move(store, None, pace)
    await move(store, places.slow)
    assert await store.moves() == ()
    assert (await partition_of(store, noon(2))).place == places.slow
    np.testing.assert_array_equal(await everything(store, GROUP), before)


async def test_a_moved_period_is_dropped_as_any_other(store: Store, places: Places) -> None:
    there = await places.tables()
    await move(store, places.slow)
    was = await store.ask(Totals(group=GROUP, within_s=60))
    period, size = await period_of(store, noon(2)), (await partition_of(store, noon(2))).readings_bytes
    dropped = await store.drop(period, Rule.AGE, at_ns=5, patience_s=5)
    assert dropped.size_bytes == size
    found = await store.ask(Totals(group=GROUP, within_s=60))
    assert (found["stored"] + found["dropped"]).tolist() == was["stored"].tolist()
    assert len(await everything(store, GROUP)) == TRIGGERS * GROUP.size
    assert not {name for name in await places.tables() - there if period.name in name}


@pytest.mark.usefixtures("small_steps")
async def test_a_period_that_is_dropped_in_the_middle_of_its_move_leaves_nothing(store: Store, places: Places) -> None:
    assert isinstance(store, Tiered)
    period = await period_of(store, noon(2))

    async def pace(done: float) -> None:
        if done and not (await store.dropped())[GROUP.name]:
            await store.drop(period, Rule.AGE, at_ns=5, patience_s=5)

    with pytest.raises(PeriodTouched):
        await store.move(period, places.slow, pace=pace, patience_s=5)
    assert await store.moves() == ()
    assert not {name for name in await places.tables() if period.name in name}
    assert len(await everything(store, GROUP)) == TRIGGERS * GROUP.size


async def test_what_is_no_period_is_refused(store: Store, places: Places) -> None:
    assert isinstance(store, Tiered)
    there = await places.tables()
    missing = Period(group="bpm", name="19700101", start_ns=0, end_ns=DAY_NS)
    with pytest.raises(StoreError, match="no partition '19700101' with readings"):
        await store.move(missing, places.slow, pace=at_once, patience_s=1)
    assert await places.tables() == there


async def test_only_one_moves_periods_of_a_group(store: Store, places: Places, make: Make) -> None:
    other = make(GROUP)
    assert isinstance(other, Tiered)
    refused: list[str] = []

    async def pace(done: float) -> None:
        with pytest.raises(StoreBusy, match="is being moved by somebody else") as error:
            await other.move(await period_of(store, noon(1)), places.slow, pace=at_once, patience_s=0.05)
        refused.append(str(error.value))

    await move(store, places.slow, pace)
    assert refused
    await other.close()


async def test_counts_are_right_at_every_moment_of_many_moves(
    store: Store, places: Places, rng: np.random.Generator, kind: str
) -> None:
    done = asyncio.Event()

    async def read() -> int:
        looks = 0
        while not done.is_set():
            found = await store.ask(Totals(group=GROUP, within_s=60))
            stored = found["arrived"] if kind.endswith("rows") else found["triggers"]
            assert found["stored"].tolist() == stored.tolist()
            looks += 1
        return looks

    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(read())
        for number, place in enumerate((places.slow, None) * 4, 3):
            await write(store, rng, number, noon(2))
            await move(store, place, patience_s=0.2)
            assert (await partition_of(store, noon(2))).place == place
        done.set()
    assert reading.result()

"""The keeper: it drops what limits ask for, beside a pipeline, by a clock that is given."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.base import Store, StoreBusy, StoreError, StoreUnavailable
from backends.postgresql import PostgresqlStore
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.core.outside.clock import Instant
from daemon.retention.keeper import RetentionKeeper
from schemas.batch import JournalPosition, Layout
from schemas.config import Config, DatabaseConfig
from schemas.queries import Totals
from schemas.readings import Array
from schemas.retention import Dropped, Period, Rule
from tests.support.batches import batch_of, by_group, group_of, readings_of
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import eventually, logging_to_memory
from tests.support.readings import START_NS as READINGS_NS
from tests.support.readings import make_block, make_group

GROUP = group_of(size=4)
DAY_NS = 86_400_000_000_000
START_NS = 20_000 * DAY_NS
MIB = 1 / 1024


class GivenClock:
    """A clock that stands where it was put."""

    def __init__(self, utc_ns: int) -> None:
        self.utc_ns = utc_ns

    def now(self) -> Instant:
        return Instant(self.utc_ns, self.utc_ns)


def config_of(group: dict[str, Any] | None = None, **retention: Any) -> Config:
    section = {"name": GROUP.name, "count": GROUP.size, "channels": [{"name": "ch0"}]}
    return Config.model_validate(
        {"groups": [section | ({"retention": group} if group else {})], "retention": retention}
    )


def keeper_of(
    store: Store, clock: GivenClock, config: Config, events: Events | None = None, **more: Any
) -> RetentionKeeper:
    real = Outside.real()
    outside = Outside(clock=clock, disk=real.disk, rng=real.rng, workers=real.workers)
    given = {"pipelines": {}, **more}
    return RetentionKeeper(store, config, Path("/nowhere"), outside, events or Events(), **given)


async def write(store: Store, number: int, time_ns: int, triggers: int = 3) -> None:
    rng = np.random.default_rng(number)
    readings = readings_of(GROUP, np.arange(triggers) + number * triggers, time_ns + np.arange(triggers) * 1000, rng)
    to = JournalPosition(sequence=number, triggers=number * triggers, readings=number * triggers * GROUP.size)
    await store.commit(batch_of(GROUP, number, readings, position=to))


async def sums(store: Store) -> dict[str, int]:
    found = await store.ask(Totals(group=GROUP, within_s=60))
    counts = {name: int(found[name].sum()) for name in ("stored", "dropped", "arrived", "triggers")}
    return {**counts, "account": int(found["account_readings"][0])}


def holds(found: dict[str, int]) -> bool:
    return found["stored"] + found["dropped"] == found["arrived"] == found["account"]


async def test_ninety_days_stay_below_the_budget_and_nothing_is_called_lost() -> None:
    store, clock = MemoryStore(by_group(GROUP)), GivenClock(START_NS)
    a_day = 300
    one = a_day * GROUP.size * 48
    # Ledgers stay: the budget has room for those of all days, and for readings of about ten.
    budget = 12 * one + 90 * a_day * 120
    keeper = keeper_of(store, clock, config_of(max_gib=budget / 2**30))
    for number in range(1, 91):
        clock.utc_ns = START_NS + number * DAY_NS
        await write(store, number, clock.utc_ns + DAY_NS // 2, a_day)
        await keeper.look()
        partitions = (await store.partitions())[GROUP.name]
        assert sum(each.size_bytes for each in partitions) <= budget
        assert holds(await sums(store))
    status = keeper.status()
    assert (status.problem, status.short, status.held) == (None, [], [])
    assert 60 < status.periods < 85
    assert status.readings == status.periods * a_day * GROUP.size
    assert (await sums(store))["triggers"] == 90 * a_day


async def test_ninety_days_keep_as_many_as_age_says() -> None:
    store, clock, events = MemoryStore(by_group(GROUP)), GivenClock(START_NS), Events()
    keeper = keeper_of(store, clock, config_of(keep_days=10), events)
    for number in range(1, 91):
        clock.utc_ns = START_NS + number * DAY_NS + DAY_NS // 2
        await write(store, number, clock.utc_ns)
        await keeper.look()
        left = [each for each in (await store.partitions())[GROUP.name] if each.readings_bytes]
        assert len(left) == min(number, 11)
        assert holds(await sums(store))
    (newest, *_) = events.newest()
    assert newest.text.startswith("retention dropped ")
    following = keeper.status().next
    assert following is not None
    assert following.at_ns == START_NS + 91 * DAY_NS


async def test_a_group_has_limits_of_its_own_and_without_any_nothing_goes() -> None:
    store, clock = MemoryStore(by_group(GROUP)), GivenClock(START_NS + 30 * DAY_NS)
    for number in range(1, 10):
        await write(store, number, START_NS + number * DAY_NS)
    await write(store, 10, clock.utc_ns - 1)
    await keeper_of(store, clock, config_of()).look()
    await keeper_of(store, clock, config_of({"keep_days": 0}, keep_days=5)).look()
    assert await store.dropped() == {GROUP.name: ()}
    await keeper_of(store, clock, config_of({"keep_days": 24}, keep_days=5)).look()
    assert len((await store.dropped())[GROUP.name]) == 5


async def test_a_disk_that_fills_is_met_by_the_oldest_first_until_only_the_newest_are_left() -> None:
    store, clock = MemoryStore(by_group(GROUP)), GivenClock(START_NS + 30 * DAY_NS)
    for number in range(1, 6):
        await write(store, number, START_NS + number * DAY_NS)
    total, free = 10**6, 100_000

    def usage(folder: Path) -> tuple[int, int]:
        return total, free

    keeper = keeper_of(store, clock, config_of(min_free_percent=20, disk="/"), usage=usage)
    for number in range(1, 4):
        await keeper.look()
        # Nothing shows of it yet: no more goes.
        assert keeper.status().periods == number
        free += 10_000
    await keeper.look()
    assert [each.period.name for each in (await store.dropped())[GROUP.name]] == ["20241005", "20241006", "20241007"]
    assert keeper.status().short == ["the disk of the database lacks 6.52e-05 GiB of what has to be free"]
    free = 200_000
    await keeper.look()
    assert keeper.status().short == []


async def test_a_disk_that_drops_do_not_free_takes_one_period_and_no_more() -> None:
    store, clock = MemoryStore(by_group(GROUP)), GivenClock(START_NS + 30 * DAY_NS)
    for number in range(1, 7):
        await write(store, number, START_NS + number * DAY_NS)
    free = 100_000
    keeper = keeper_of(store, clock, config_of(min_free_percent=20, disk="/"), usage=lambda folder: (10**6, free))
    for _ in range(5):
        await keeper.look()
    assert keeper.status().periods == 1
    problem = keeper.status().problem
    assert problem is not None
    assert problem.startswith("20241005 of group bpm was dropped for the disk of /, which freed nothing there")
    # What freed some after all, or another limit, lets it go on.
    free += 10_000
    await keeper.look()
    assert keeper.status().periods == 2
    keeper.change(config_of(min_free_percent=21, disk="/"))
    await keeper.look()
    assert keeper.status().periods == 3


async def test_a_store_that_is_away_or_a_table_in_use_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store, clock, events = MemoryStore(by_group(GROUP)), GivenClock(START_NS + 30 * DAY_NS), Events()
    for number in range(1, 6):
        await write(store, number, START_NS + number * DAY_NS)
    keeper = keeper_of(store, clock, config_of(keep_days=2), events)
    store.fail_with(StoreUnavailable("it is away"))
    await keeper.look()
    await keeper.look()
    assert keeper.status().problem == "it is away"
    assert [event.text for event in events.newest()] == [
        "retention cannot drop all that its limits ask for: it is away"
    ]
    store.fail_with(None)
    patience: list[float] = []
    really = store.drop

    async def busy(period: Period, rule: Rule, *, at_ns: int, patience_s: float) -> Dropped:
        patience.append(patience_s)
        if len(patience) < 4:
            raise StoreBusy("in use")
        return await really(period, rule, at_ns=at_ns, patience_s=patience_s)

    monkeypatch.setattr(store, "drop", busy)
    monkeypatch.setattr("daemon.retention.looking.AGAIN_FIRST_S", 0.001)
    await keeper.look()
    assert patience == [0.05, 0.1, 0.2, 0.5, 0.05]
    assert (keeper.status().problem, keeper.status().periods) == (None, 2)


async def test_without_a_limit_a_store_that_is_away_is_no_problem_of_retention() -> None:
    store, events = MemoryStore(by_group(GROUP)), Events()
    keeper = keeper_of(store, GivenClock(START_NS), config_of(), events)
    store.fail_with(StoreUnavailable("it is away"))
    await keeper.look()
    assert (keeper.status().problem, list(events.newest())) == (None, [])


async def test_a_disk_that_cannot_be_looked_at_is_named() -> None:
    keeper = keeper_of(
        MemoryStore(by_group(GROUP)), GivenClock(START_NS), config_of(min_free_percent=20, disk="/no/such/folder")
    )
    await keeper.look()
    assert keeper.status().problem == "the disk of /no/such/folder cannot be looked at: no such file or directory"


@asynccontextmanager
async def postgresql(dsn: str, schema: str) -> AsyncIterator[PostgresqlStore]:
    store = PostgresqlStore(
        DatabaseConfig(dsn=dsn, schema=schema, partition="hour"),
        logger="main",
        groups=by_group(GROUP),
        layouts={GROUP.name: Layout.ROWS},
    )
    try:
        await store.open()
        yield store
    finally:
        await store.close()


async def test_a_real_server_stays_below_its_budget_beside_writing_and_reading(
    postgresql_dsn: str, schema: str
) -> None:
    hour_ns = DAY_NS // 24
    end_ns = time.time_ns() // hour_ns * hour_ns
    clock = GivenClock(end_ns)
    budget_mib = 6
    async with postgresql(postgresql_dsn, schema) as store:
        keeper = keeper_of(store, clock, config_of(max_gib=budget_mib * MIB))
        done = asyncio.Event()

        async def read() -> int:
            looks = 0
            while not done.is_set():
                assert holds(await sums(store))
                looks += 1
            return looks

        reading = asyncio.create_task(read())
        sizes: Callable[[], Any] = store.partitions
        for number in range(1, 13):
            clock.utc_ns = end_ns - (12 - number) * hour_ns
            await write(store, number, clock.utc_ns, 2000)
            await keeper.look()
            size = sum(each.size_bytes for each in (await sizes())[GROUP.name])
            assert keeper.status().short or size <= budget_mib * 2**20
        done.set()
        assert await reading
        assert holds(await sums(store))
        assert keeper.status().periods > 2
        assert keeper.status().problem is None


async def test_a_day_that_something_waits_for_is_held_and_goes_when_that_is_stored() -> None:
    group = make_group()
    day_ns = READINGS_NS // DAY_NS * DAY_NS
    days = range(4)

    def block(day: int, *triggers: int, instruments: int = group.size - 1) -> Array:
        made = make_block(
            group,
            [(n, i) for n in triggers for i in range(instruments)],
            when=lambda trigger: day_ns + day * DAY_NS + DAY_NS // 2 + trigger * 1000,
        )
        made["epoch"] = 7
        return made

    async with logging_to_memory(group, assembly={"window": 64, "max_open": 16, "timeout_ms": 20}) as logger:
        pipeline, store = logger.pipelines[group.name], logger.store
        for day in days:
            pipeline.receive(block(day, *range(day * 40 + 1, day * 40 + 41)))
            await eventually(lambda day=day: pipeline.figures().committed.triggers == (day + 1) * 40)
        config = Config.model_validate(
            {
                "groups": [{"name": group.name, "count": group.size, "channels": [{"name": "x"}]}],
                "retention": {"keep_days": 2},
            }
        )
        real = Outside.real()
        clock = GivenClock(day_ns + 5 * DAY_NS + 1)
        outside = Outside(clock=clock, disk=real.disk, rng=real.rng, workers=real.workers)
        keeper = RetentionKeeper(store, config, Path(), outside, Events(), pipelines=logger.pipelines)
        store.serving.clear()
        late = block(0, 5, instruments=group.size)[-1:]
        pipeline.receive(late.copy())
        await eventually(lambda: pipeline.figures().waiting.blocks == 1)
        await keeper.look()
        (held,) = keeper.status().held
        assert held.endswith(f"of {group.name}: readings of it wait for the database")
        assert keeper.status().periods == 0
        store.serving.set()
        await eventually(lambda: not pipeline.figures().waiting.blocks)
        await keeper.look()
        assert (keeper.status().held, keeper.status().periods) == ([], 1)
        # What comes for it from now on is set aside.
        pipeline.receive(block(0, 6, instruments=group.size)[-1:])
        await eventually(lambda: pipeline.figures().letters_aside == 1)
        found = await store.ask(Totals(group=group, within_s=1))
        assert (found["stored"] + found["dropped"]).sum() == found["arrived"].sum() == 4 * 40 * (group.size - 1) + 1


async def filled(days: int = 6) -> MemoryStore:
    store = MemoryStore(by_group(GROUP))
    for number in range(1, days + 1):
        await write(store, number, START_NS + number * DAY_NS)
    return store


async def test_a_clock_of_the_node_that_is_far_ahead_makes_nothing_old() -> None:
    store, clock = await filled(), GivenClock(START_NS + 6 * DAY_NS + 1)
    keeper = keeper_of(store, clock, config_of(keep_days=30))
    clock.utc_ns += 4000 * DAY_NS
    await keeper.look()
    assert keeper.status().periods == 0
    clock.utc_ns -= 4000 * DAY_NS
    await keeper.look()
    assert keeper.status().periods == 0


async def test_limits_that_are_raised_while_a_table_is_in_use_keep_what_is_not_dropped_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, clock = await filled(), GivenClock(START_NS + 6 * DAY_NS + 1)
    keeper = keeper_of(store, clock, config_of(keep_days=2))
    tries = 0

    async def busy(*_: object, **__: object) -> Dropped:
        nonlocal tries
        tries += 1
        assert tries == 1, "it was tried though no limit asks for it"
        keeper.change(config_of(keep_days=100))
        raise StoreBusy("in use")

    monkeypatch.setattr(store, "drop", busy)
    monkeypatch.setattr("daemon.retention.keeper.AGAIN_FIRST_S", 0.001)
    await keeper.look()
    assert (keeper.status().problem, keeper.status().periods, tries) == (None, 0, 1)


async def test_other_limits_are_looked_at_at_once() -> None:
    store, clock = await filled(), GivenClock(START_NS + 6 * DAY_NS + 1)
    keeper = keeper_of(store, clock, config_of(check_every_s=86_400))
    running = asyncio.create_task(keeper.run())
    await eventually(lambda: keeper.status().checked_ns is not None)
    keeper.change(config_of(keep_days=2, check_every_s=86_400))
    await eventually(lambda: keeper.status().periods == 3)
    running.cancel()


async def test_a_disk_that_cannot_be_looked_at_keeps_no_other_limit_from_being_met() -> None:
    store, clock = await filled(), GivenClock(START_NS + 6 * DAY_NS + 1)
    keeper = keeper_of(store, clock, config_of(keep_days=2, min_free_percent=20, disk="/no/such/folder"))
    await keeper.look()
    assert keeper.status().periods == 3
    assert keeper.status().problem == "the disk of /no/such/folder cannot be looked at: no such file or directory"


@pytest.mark.parametrize(
    "error", [StoreError("it refuses"), StoreBusy("in use"), StoreUnavailable("could not open file (58P01)")]
)
async def test_a_group_that_cannot_be_dropped_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> None:
    other = group_of("ict", size=4)
    store, clock = MemoryStore(by_group(GROUP, other)), GivenClock(START_NS + 6 * DAY_NS + 1)
    rng = np.random.default_rng(1)
    for number in range(1, 7):
        for group in (GROUP, other):
            readings = readings_of(group, np.array([number]), np.array([START_NS + number * DAY_NS]), rng)
            await store.commit(batch_of(group, number, readings))
    sections = [{"name": each.name, "count": 4, "channels": [{"name": "ch0"}]} for each in (GROUP, other)]
    config = Config.model_validate({"groups": sections, "retention": {"keep_days": 2}})
    keeper, really = keeper_of(store, clock, config), store.drop

    async def some(period: Period, rule: Rule, *, at_ns: int, patience_s: float) -> Dropped:
        if period.group == GROUP.name:
            raise error
        return await really(period, rule, at_ns=at_ns, patience_s=patience_s)

    monkeypatch.setattr(store, "drop", some)
    monkeypatch.setattr("daemon.retention.keeper.AGAIN_FIRST_S", 0.0001)
    monkeypatch.setattr("daemon.retention.keeper.AGAIN_MOST_S", 0.0001)
    await keeper.look()
    assert [len(each) for each in (await store.dropped()).values()] == [0, 3]
    assert keeper.status().problem is not None
    assert len(keeper.status().held) == 3


async def test_pipelines_know_what_was_dropped_by_others_and_what_was_only_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = make_group()
    day_ns = READINGS_NS // DAY_NS * DAY_NS
    async with logging_to_memory(group) as logger:
        pipeline, store = logger.pipelines[group.name], logger.store
        for day in range(4):
            made = make_block(
                group,
                [(n, i) for n in range(day * 9 + 1, day * 9 + 10) for i in range(group.size)],
                when=lambda trigger, day=day: day_ns + day * DAY_NS + DAY_NS // 2 + trigger * 1000,
            )
            made["epoch"] = 7
            pipeline.receive(made)
            await eventually(lambda day=day: pipeline.figures().committed.triggers == (day + 1) * 9)
        sections = [{"name": group.name, "count": group.size, "channels": [{"name": "x"}]}]
        config = Config.model_validate({"groups": sections, "retention": {"keep_days": 2}})
        keeper = keeper_of(store, GivenClock(day_ns + 5 * DAY_NS), config, pipelines=logger.pipelines)
        (first, *_) = (await store.partitions())[group.name]
        period = Period(group=group.name, name=first.name, start_ns=first.start_ns, end_ns=first.end_ns)
        really, between = store.drop, []

        async def busy(*_: object, **__: object) -> Dropped:
            assert pipeline.dropped.has(period)
            raise StoreBusy("in use")

        async def pause(_: object) -> None:
            between.append(pipeline.dropped.has(period))

        monkeypatch.setattr(store, "drop", busy)
        monkeypatch.setattr("daemon.retention.keeper.Backoff.pause", pause)
        await keeper.look()
        assert set(between) == {False}, "what comes late while it is put off is stored"
        await really(period, Rule.AGE, at_ns=1, patience_s=1)
        await keeper.look()
        assert pipeline.dropped.has(period)

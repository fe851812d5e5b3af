"""The keeper of tiers on a real server: it moves what limits ask for, by a clock that is given."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np
import pytest

from backends.base import PlaceRefused, StoreUnavailable
from backends.postgresql import PostgresqlStore
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.retention.looking import TOUCHED_FIRST_NS
from daemon.tiers.keeper import TierKeeper
from daemon.tiers.limits import MoveRefused
from schemas.batch import JournalPosition, Layout
from schemas.config import Config, DatabaseConfig
from schemas.queries import Totals
from schemas.retention import Period, Rule
from tests.backends.postgresql.test_moving import SLOW, database, slow
from tests.daemon.retention.test_keeper import GivenClock
from tests.support.batches import batch_of, by_group, group_of, readings_of
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import eventually

__all__ = ["database", "slow"]

GROUP = group_of(size=4)
HOUR_NS = 3_600_000_000_000
HOURS = 6
TRIGGERS = 50
NOW_NS = time.time_ns() // HOUR_NS * HOUR_NS


def config_of(*tiers: dict[str, Any], **tiering: Any) -> Config:
    group = {"name": GROUP.name, "count": GROUP.size, "channels": [{"name": "ch0"}]}
    fast = {"name": "fast", "max_gib": 1000}
    slow = {"name": "slow", "tablespace": SLOW, "after_days": 2.5 / 24}
    database = {"partition": "hour"}
    return Config.model_validate(
        {"groups": [group], "tiers": tiers or (fast, slow), "tiering": tiering, "database": database}
    )


@asynccontextmanager
async def opened(
    dsn: str, schema: str, places: tuple[str | None, ...] = (None, SLOW)
) -> AsyncIterator[PostgresqlStore]:
    store = PostgresqlStore(
        DatabaseConfig(dsn=dsn, schema=schema, partition="hour"),
        logger="main",
        groups=by_group(GROUP),
        layouts={GROUP.name: Layout.ROWS},
        places=places,
    )
    try:
        await store.open()
        yield store
    finally:
        await store.close()


async def write(store: PostgresqlStore, number: int, time_ns: int) -> None:
    rng = np.random.default_rng(number)
    readings = readings_of(GROUP, np.arange(TRIGGERS) + 1000 * number, time_ns + np.arange(TRIGGERS) * 1000, rng)
    to = JournalPosition(sequence=number, triggers=number * TRIGGERS, readings=number * TRIGGERS * GROUP.size)
    await store.commit(batch_of(GROUP, number, readings, position=to))


@pytest.fixture
async def store(postgresql_dsn: str, schema: str, slow: str) -> AsyncIterator[PostgresqlStore]:
    """An hour a partition; the newest ended an hour ago."""
    async with opened(postgresql_dsn, schema) as store:
        for number in range(HOURS):
            await write(store, number + 1, NOW_NS - (HOURS - number) * HOUR_NS)
        yield store


def keeper_of(
    store: PostgresqlStore, folder: Path, config: Config, events: Events | None = None
) -> tuple[TierKeeper, GivenClock]:
    real, clock = Outside.real(), GivenClock(NOW_NS)
    outside = Outside(clock=clock, disk=real.disk, rng=real.rng, workers=real.workers)
    return TierKeeper(store, config, folder, outside, events or Events(), pipelines={}), clock


async def places(store: PostgresqlStore) -> list[str | None]:
    """Where each hour with readings lies, the oldest first."""
    found = (await store.partitions())[GROUP.name]
    return [each.place for each in found if each.readings_bytes and each.name.isdigit() and each.start_ns < NOW_NS]


async def whole(store: PostgresqlStore, hours: int = HOURS) -> bool:
    found = await store.ask(Totals(group=GROUP, within_s=60))
    return int(found["stored"].sum()) == hours * TRIGGERS * GROUP.size


async def test_age_moves_hours_as_time_goes_on(store: PostgresqlStore, tmp_path: Path) -> None:
    events = Events()
    keeper, clock = keeper_of(store, tmp_path, config_of(), events)
    await keeper.look()
    # They ended 4, 3, ... hours before the newest trigger.
    assert await places(store) == [SLOW, SLOW, None, None, None, None]
    status = keeper.status()
    assert status is not None
    assert (status.problem, status.moved, status.waiting, status.moving) == (None, 2, 0, None)
    assert [(tier.name, tier.partitions) for tier in status.tiers] == [("fast", 4), ("slow", 2)]
    assert status.tiers[1].size_bytes > 0
    assert status.next is not None
    assert (status.next.tier, status.next.at_ns) == ("slow", NOW_NS - HOUR_NS // 2)
    assert "was moved from fast to slow" in events.newest()[0].text
    clock.utc_ns += 900 * HOUR_NS
    await keeper.look()
    assert await places(store) == [SLOW, SLOW, None, None, None, None], "a clock alone makes nothing old"
    await write(store, HOURS + 1, NOW_NS)
    await keeper.look()
    assert await places(store) == [SLOW, SLOW, SLOW, None, None, None]
    await write(store, HOURS + 2, NOW_NS + 100 * HOUR_NS)
    await keeper.look()
    # That one is of no partition; the two newest of the others stay.
    assert await places(store) == [*[SLOW] * (HOURS - 1), None]
    assert await whole(store, HOURS + 2)
    assert (keeper.tier_named(None), keeper.tier_named(SLOW), keeper.tier_named("other")) == ("fast", "slow", None)


async def test_what_is_ordered_is_moved_first_and_what_cannot_be_is_refused(
    store: PostgresqlStore, tmp_path: Path
) -> None:
    keeper, _ = keeper_of(store, tmp_path, config_of(), events := Events())
    names = [each.name for each in (await store.partitions())[GROUP.name] if each.readings_bytes and each.rows]
    ordered = await keeper.order(GROUP.name, names[2], "slow")
    assert (ordered.source, ordered.target.name, ordered.reason) == ("fast", "slow", "by hand")
    await keeper.order(GROUP.name, names[2], "slow")
    await keeper.look()
    assert await places(store) == [SLOW, SLOW, SLOW, None, None, None]
    assert events.newest()[-1].text.startswith(f"{names[2]} of group {GROUP.name} was moved from fast to slow")
    status = keeper.status()
    assert status is not None
    assert (status.moved, status.waiting) == (3, 0)
    for group, name, tier, part, is_there in (
        (GROUP.name, names[2], "slow", "partition", True),
        (GROUP.name, names[-1], "slow", "partition", True),
        (GROUP.name, "19700101", "slow", "partition", False),
        ("bmp", names[0], "slow", "group", False),
        (GROUP.name, names[0], "tape", "tier", False),
    ):
        with pytest.raises(MoveRefused) as refused:
            await keeper.order(group, name, tier)
        assert (refused.value.part, refused.value.is_there) == (part, is_there)
    assert await whole(store)


async def test_a_budget_moves_the_oldest_until_it_is_met_and_says_what_it_lacks(
    store: PostgresqlStore, tmp_path: Path
) -> None:
    sizes = [each.size_bytes for each in (await store.partitions())[GROUP.name]]
    of_readings = (await store.partitions())[GROUP.name][1]
    movable = (of_readings.readings_bytes or 0) - of_readings.index_bytes
    budget = sum(sizes) - 1.5 * movable
    slow = {"name": "slow", "tablespace": SLOW}
    keeper, _ = keeper_of(store, tmp_path, config_of({"name": "fast", "max_gib": budget / 2**30}, slow))
    await keeper.look()
    assert await places(store) == [SLOW, SLOW, None, None, None, None]
    keeper.change(config_of({"name": "fast", "max_gib": 1e-9}, slow))
    await keeper.look()
    assert await places(store) == [SLOW, SLOW, SLOW, SLOW, None, None]
    status = keeper.status()
    assert status is not None
    (short,) = status.short
    assert short.startswith("tier fast takes ")
    assert await whole(store)


async def test_a_move_that_nobody_wants_any_more_is_cleared_up(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str, tmp_path: Path
) -> None:
    one = (await store.partitions())[GROUP.name][1]
    period = Period(group=GROUP.name, name=one.name, start_ns=one.start_ns, end_ns=one.end_ns)

    async def pace(done: float) -> None:
        raise StoreUnavailable("killed")

    with pytest.raises(StoreUnavailable):
        await store.move(period, SLOW, pace=pace, patience_s=5)
    assert len(await store.moves()) == 1
    without = Config.model_validate(
        {"groups": [{"name": GROUP.name, "count": GROUP.size, "channels": [{"name": "x"}]}]}
    )
    keeper, _ = keeper_of(store, tmp_path, without)
    assert keeper.status() is None
    await keeper.look()
    assert await store.moves() == ()
    with pytest.raises(StoreUnavailable):
        await store.move(period, SLOW, pace=pace, patience_s=5)
    keeper, _ = keeper_of(store, tmp_path, config_of())
    await keeper.look()
    assert await store.moves() == ()
    assert await places(store) == [SLOW, SLOW, None, None, None, None]
    assert await whole(store)


async def test_a_period_that_readings_come_for_is_left_alone_for_a_while(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str, tmp_path: Path
) -> None:
    events = Events()
    keeper, clock = keeper_of(store, tmp_path, config_of(), events)
    keeper._allowance.share = lambda: 1.0  # type: ignore[method-assign]
    oldest = (await store.partitions())[GROUP.name][1].name
    really, touched = store.move, []

    async def move(period: Period, place: str | None, **more: Any) -> None:
        async def pace(done: float) -> None:
            if period.name == oldest and done == 1.0 and not touched:
                touched.append(period.name)
                await database.execute(f'UPDATE {schema}."bpm${oldest}$leaf" SET run = run')

        await really(period, place, **{**more, "pace": pace})

    store.move = move  # type: ignore[method-assign]
    await keeper.look()
    assert await places(store) == [None, SLOW, None, None, None, None]
    status = keeper.status()
    assert status is not None
    assert status.held == [f"{oldest} of bpm: readings came for it while it was copied"]
    assert any("it stays in fast, and is tried again later" in event.text for event in events.newest())
    await keeper.look()
    assert await places(store) == [None, SLOW, None, None, None, None]
    clock.utc_ns += TOUCHED_FIRST_NS
    await keeper.look()
    assert await places(store) == [SLOW, SLOW, None, None, None, None]
    assert await whole(store)


async def test_dropping_beside_a_move_of_the_same_period_is_told_and_ends(
    store: PostgresqlStore, tmp_path: Path
) -> None:
    keeper, _ = keeper_of(store, tmp_path, config_of())
    one = (await store.partitions())[GROUP.name][1]
    period = Period(group=GROUP.name, name=one.name, start_ns=one.start_ns, end_ns=one.end_ns)
    really = store.move

    async def move(of: Period, place: str | None, **more: Any) -> None:
        async def pace(done: float) -> None:
            if of.name == one.name and not (await store.dropped())[GROUP.name]:
                await store.drop(period, Rule.AGE, at_ns=5, patience_s=5)

        await really(of, place, **{**more, "pace": pace})

    store.move = move  # type: ignore[method-assign]
    await keeper.look()
    await keeper.look()
    assert await store.moves() == ()
    status = keeper.status()
    assert status is not None
    assert status.problem is None
    assert await places(store) == [SLOW, None, None, None, None]


async def test_a_move_shows_how_far_it_is(store: PostgresqlStore, tmp_path: Path) -> None:
    keeper, _ = keeper_of(store, tmp_path, config_of())
    go_on = asyncio.Event()
    really = store.move

    async def move(period: Period, place: str | None, *, pace: Any, patience_s: float) -> None:
        async def waiting(done: float) -> None:
            await pace(done)
            await go_on.wait()

        await really(period, place, pace=waiting, patience_s=patience_s)

    store.move = move  # type: ignore[method-assign]
    looking = asyncio.create_task(keeper.look())
    await eventually(lambda: keeper.status().moving is not None)  # type: ignore[union-attr]
    status = keeper.status()
    assert status is not None
    assert status.moving is not None
    assert (status.moving.source, status.moving.target, status.moving.done) == ("fast", "slow", 0.0)
    assert status.waiting == 1
    assert status.words().startswith(f"moving {status.moving.name} of bpm to slow")
    for tier in ("slow", "fast"):
        with pytest.raises(MoveRefused, match=f"{status.moving.name} of bpm is being moved to slow now") as refused:
            await keeper.order(GROUP.name, status.moving.name, tier)
        assert (refused.value.part, refused.value.is_there) == ("partition", True)
    go_on.set()
    await looking
    assert keeper.status().moving is None  # type: ignore[union-attr]


async def test_an_hour_that_is_read_moves_back_and_a_restart_forgets_nothing(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str, tmp_path: Path
) -> None:
    fast, slow = {"name": "fast", "max_gib": 1000}, {"name": "slow", "tablespace": SLOW}
    config = config_of(fast, slow, policy="access")
    hours = [each for each in (await store.partitions())[GROUP.name] if each.name.isdigit()]
    for one in hours[:2]:
        period = Period(group=GROUP.name, name=one.name, start_ns=one.start_ns, end_ns=one.end_ns)
        await store.move(period, SLOW, pace=at_once, patience_s=5)
    await database.execute(f'ANALYZE {schema}."bpm${hours[1].name}$leaf"')
    keeper, clock = keeper_of(store, tmp_path, config)
    await keeper.look()
    assert (keeper.heat_of(GROUP.name, hours[1].name), keeper.heat_of(GROUP.name, "never")) == (0, None)
    scan = f'SELECT sum(ch0 + i) FROM {schema}."bpm${hours[1].name}$leaf"'
    await database.fetch(f"SELECT ({scan}) FROM generate_series(1, 2000) i")
    await database.execute("SELECT pg_stat_force_next_flush()")
    await database.execute("SELECT 1")
    await keeper.look()
    assert await places(store) == [SLOW, SLOW, None, None, None, None]
    hot = keeper.heat_of(GROUP.name, hours[1].name)
    assert hot
    assert keeper.heat_of(GROUP.name, hours[0].name) == 0
    status = keeper.status()
    assert status is not None
    assert status.next is not None
    assert (status.next.name, status.next.tier, status.next.at_ns) == (hours[1].name, "fast", NOW_NS + 6 * HOUR_NS)
    assert [tier.heat_s_a_day for tier in status.tiers] == [0, hot]
    await keeper._keep_heat()
    events = Events()
    keeper, clock = keeper_of(store, tmp_path, config, events)
    await keeper.look()
    assert keeper.heat_of(GROUP.name, hours[1].name) == pytest.approx(hot)
    clock.utc_ns += 6 * HOUR_NS
    await keeper.look()
    assert await places(store) == [SLOW, None, None, None, None, None]
    assert "was moved from slow to fast" in events.newest()[0].text
    assert keeper.heat_of(GROUP.name, hours[1].name) == pytest.approx(hot * 2**-0.25)
    await keeper.look()
    assert await places(store) == [SLOW, None, None, None, None, None]
    assert await whole(store)


async def at_once(done: float) -> None:
    """The pace of a test."""


def test_what_was_read_to_reduce_it_is_left_aside_until_a_look_finds_none_of_it(tmp_path: Path) -> None:
    real, label, read = Outside.real(), (GROUP.name, "20260101"), [(GROUP.name, "20260101")]

    def take_read() -> list[tuple[str, str]]:
        taken, read[:] = [*read], []
        return taken

    keeper = TierKeeper(
        MemoryStore(by_group(GROUP)), config_of(), tmp_path, real, Events(), pipelines={}, read=take_read
    )
    found = []
    for second in (0, 20, 40, 80):
        found.append(label in keeper._own_until(second * 10**9))
        keeper._looked_ns = second * 10**9
    assert found == [True, True, True, False], "what was read may have shown after the look at 20 s"


async def test_new_partitions_and_all_indexes_lie_in_the_first_tier(
    postgresql_dsn: str, schema: str, slow: str, database: asyncpg.Connection, tmp_path: Path
) -> None:
    async with opened(postgresql_dsn, schema, (SLOW, None)) as store:
        for number in range(HOURS):
            await write(store, number + 1, NOW_NS - (HOURS - number) * HOUR_NS)
        assert await places(store) == [SLOW] * HOURS
        tiers = {"name": "fast", "tablespace": SLOW}, {"name": "slow", "after_days": 2.5 / 24}
        keeper, _ = keeper_of(store, tmp_path, config_of(*tiers))
        await keeper.look()
        assert await places(store) == [None, None, SLOW, SLOW, SLOW, SLOW]
        indexes = await database.fetch(
            f"SELECT DISTINCT t.spcname AS place FROM pg_partition_tree('{schema}.bpm')"
            " JOIN pg_index ON indrelid = relid"
            " JOIN pg_class c ON c.oid = indexrelid LEFT JOIN pg_tablespace t ON t.oid = c.reltablespace"
            " WHERE isleaf AND level = 2"
        )
        assert [row["place"] for row in indexes] == [SLOW]


async def test_a_tablespace_that_cannot_be_used_is_named_with_the_fix(
    postgresql_dsn: str, schema: str, slow: str, database: asyncpg.Connection
) -> None:
    with pytest.raises(PlaceRefused, match="has no tablespace 'nowhere'; let an administrator run `CREATE TABLESPACE"):
        async with opened(postgresql_dsn, schema, (None, "nowhere")):
            pass
    await database.execute(f"CREATE ROLE guest_{schema} LOGIN; GRANT CREATE ON DATABASE postgres TO guest_{schema}")
    guest = postgresql_dsn.replace("postgres@", f"guest_{schema}@")
    refused = f"user 'guest_{schema}' may not create in tablespace 'slow'; let an administrator run `GRANT CREATE ON"
    with pytest.raises(PlaceRefused, match=refused):
        async with opened(guest, f"{schema}_guest", (None, SLOW)):
            pass


async def test_what_retention_drops_meanwhile_is_no_problem(
    store: PostgresqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, dropped = store.move, []

    async def move(period: Period, place: str | None, **more: Any) -> None:
        if not dropped:
            dropped.append(await store.drop(period, Rule.SIZE, at_ns=NOW_NS, patience_s=5))
        await really(period, place, **more)

    monkeypatch.setattr(store, "move", move)
    keeper, _ = keeper_of(store, tmp_path, config_of())
    await keeper.look()
    status = keeper.status()
    assert status is not None
    assert dropped
    assert (status.problem, status.moved, status.failed, status.held) == (None, 1, 0, [])
    assert await places(store) == [SLOW, None, None, None, None]


async def test_a_partition_whose_file_cannot_be_found_holds_up_no_other(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str, tmp_path: Path
) -> None:
    """The server says so as if it could not do anything now."""
    oldest = (await store.partitions())[GROUP.name][1].name
    leaf = f'{schema}."bpm${oldest}$leaf"'
    folder = Path(await database.fetchval("SHOW data_directory"))
    file = folder / await database.fetchval("SELECT pg_relation_filepath(to_regclass($1))", leaf)
    await database.execute("CHECKPOINT")
    away = file.rename(file.with_name(f"{file.name}.away"))
    keeper, _ = keeper_of(store, tmp_path, config_of(), events := Events())
    try:
        for _ in range(2):
            await keeper.look()
            assert await places(store) == [None, SLOW, None, None, None, None]
            status = keeper.status()
            assert status is not None
            assert status.problem is not None
            assert "could not open file" in status.problem
    finally:
        away.rename(file)
    assert sum("tiers cannot move all" in event.text for event in events.newest()) == 1
    await keeper.look()
    assert await places(store) == [SLOW, SLOW, None, None, None, None]
    assert await whole(store)

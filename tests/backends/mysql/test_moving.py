"""Moving a period into another directory of MariaDB: what the contract of moves says nothing of."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from backends.base import PeriodTouched, PlaceRefused, StoreBusy, StoreError, StoreUnavailable
from backends.mysql import MysqlStore
from backends.mysql.moving import MysqlMoving
from backends.mysql.schema.partitions import beside, place_of, places_of
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.readings import Array
from tests.backends.test_store_contract import Make, everything, opened, rng
from tests.backends.test_store_moving import (
    GROUP,
    make,
    move,
    partition_of,
    period_of,
    places,
    small_steps,
    store,
    try_to_move,
    write,
)
from tests.backends.test_store_retention import noon
from tests.support.batches import by_group
from tests.support.places import MysqlPlaces

__all__ = ["make", "opened", "places", "rng", "small_steps", "store"]

COUNT = "SELECT COUNT(*) FROM bpm"


@pytest.fixture(params=["mysql-rows", "mysql-arrays"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def dsn(mariadb_dsn: str) -> str:
    return mariadb_dsn


async def test_a_snapshot_from_before_the_copy_never_finds_a_part_of_a_period(
    store: MysqlStore, places: MysqlPlaces
) -> None:
    """To the server the copy is a table as any other, whose rows are newer than the snapshot."""
    ((whole,),) = await places.fetch(COUNT)

    async def pace(done: float) -> None:
        if done == 1.0:
            await places.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")

    with pytest.raises(StoreBusy, match="is in a transaction that began before the copy was complete"):
        await try_to_move(store, places.slow, pace)
    with pytest.raises(StoreBusy):
        await try_to_move(store, places.slow)
    assert await places.fetch(COUNT) == [(whole,)]
    await places.run("ROLLBACK")
    await move(store, places.slow)
    assert await places.fetch(COUNT) == [(whole,)]


async def test_a_snapshot_from_after_the_copy_finds_all_of_it(
    store: MysqlStore, places: MysqlPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((whole,),) = await places.fetch(COUNT)
    really = MysqlMoving._exchange_now

    async def exchange(self: MysqlMoving, *arguments: Any) -> None:
        await places.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        await really(self, *arguments)

    monkeypatch.setattr(MysqlMoving, "_exchange_now", exchange)
    await move(store, places.slow)
    assert await places.fetch(COUNT) == [(whole,)]
    await places.run("ROLLBACK")


@pytest.mark.parametrize("moment", ["_lock_behind", "_exchange_now"])
async def test_who_writes_into_the_period_before_the_exchange_is_not_lost(
    store: MysqlStore, places: MysqlPlaces, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whatever waits meanwhile goes on behind the exchange, into the partition as it is then."""
    name = (await period_of(store, noon(2))).name
    before = len(await everything(store, GROUP))
    really = getattr(MysqlMoving, moment)
    writing: list[asyncio.Task[None]] = []

    async def first_write(self: MysqlMoving, *arguments: Any) -> None:
        late = f"UPDATE bpm PARTITION (p{name}) SET run = run + 100 ORDER BY time_ns LIMIT 1"
        writing.append(asyncio.create_task(places.run(late)))
        await asyncio.sleep(0.2)
        assert not writing[-1].done()
        await really(self, *arguments)

    monkeypatch.setattr(MysqlMoving, moment, first_write)
    with suppress(PeriodTouched):
        await move(store, places.slow)
    await asyncio.gather(*writing)
    assert await places.fetch(f"{COUNT} WHERE run > 100") == [(1,)]
    assert len(await everything(store, GROUP)) == before
    assert (await partition_of(store, noon(2))).place == places.slow


async def test_a_commit_waits_for_the_exchange_and_is_done(
    store: MysqlStore, monkeypatch: pytest.MonkeyPatch, places: MysqlPlaces, rng: np.random.Generator
) -> None:
    """To the daemon it is a slow statement."""
    before = len(await everything(store, GROUP))
    really = MysqlMoving._exchange_now
    writing: list[asyncio.Task[Array]] = []

    async def exchange(self: MysqlMoving, *arguments: Any) -> None:
        writing.append(asyncio.create_task(write(store, rng, 3, time.time_ns())))
        await asyncio.sleep(0.2)
        assert not writing[-1].done()
        await really(self, *arguments)

    monkeypatch.setattr(MysqlMoving, "_exchange_now", exchange)
    await move(store, places.slow)
    (written,) = await asyncio.gather(*writing)
    assert len(await everything(store, GROUP)) == before + written.size


async def test_a_late_reading_that_meets_the_comparison_goes_before_the_move(
    store: MysqlStore, places: MysqlPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = (await period_of(store, noon(2))).name
    really = MysqlMoving._compare
    writing: list[asyncio.Task[None]] = []

    async def compare(self: MysqlMoving, *arguments: Any) -> None:
        await really(self, *arguments)
        if not writing:
            late = f"UPDATE bpm PARTITION (p{name}) SET run = run + 100 ORDER BY time_ns LIMIT 1"
            writing.append(asyncio.create_task(places.run(late)))
            await asyncio.sleep(0.2)
            assert not writing[0].done()

    monkeypatch.setattr(MysqlMoving, "_compare", compare)
    with pytest.raises(StoreBusy, match="table 'bpm' is in use"):
        await try_to_move(store, places.slow, patience_s=0.05)
    await writing[0]
    with pytest.raises(PeriodTouched):
        await move(store, places.slow)
    assert await places.fetch(f"{COUNT} WHERE run > 100") == [(1,)]
    await move(store, places.slow)
    assert await places.fetch(f"{COUNT} WHERE run > 100") == [(1,)]


@pytest.mark.usefixtures("small_steps")
async def test_a_comparison_gives_way_to_who_waits_for_it(
    store: MysqlStore, places: MysqlPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.mysql.moving.WAIT_S", 0.2)
    name = (await period_of(store, noon(2))).name
    really = MysqlMoving._steps
    writing: list[asyncio.Task[None]] = []

    async def slowly(self: MysqlMoving, *arguments: Any, **more: Any) -> Any:
        async for within in really(self, *arguments, **more):
            if more and not writing:
                first = f"UPDATE bpm PARTITION (p{name}) SET run = run + 100 ORDER BY time_ns LIMIT 1"
                writing.append(asyncio.create_task(places.run(first)))
            if more:
                await asyncio.sleep(0.3)
            yield within

    monkeypatch.setattr(MysqlMoving, "_steps", slowly)
    with pytest.raises(StoreBusy, match="somebody waits for a lock of a row"):
        await try_to_move(store, places.slow)
    await writing[0]
    with pytest.raises(PeriodTouched):
        await move(store, places.slow)


async def test_without_the_guard_nothing_is_exchanged(
    store: MysqlStore, places: MysqlPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await everything(store, GROUP)
    really = MysqlMoving._is_next

    async def is_next(self: MysqlMoving, guard: Any, locking: Any) -> bool:
        assert await really(self, guard, locking)
        await places.run(f"KILL {guard.thread_id()}")
        return True

    monkeypatch.setattr(MysqlMoving, "_is_next", is_next)
    with pytest.raises(StoreUnavailable):
        await move(store, places.slow)
    assert (await partition_of(store, noon(2))).place is None
    np.testing.assert_array_equal(await everything(store, GROUP), before)
    monkeypatch.setattr(MysqlMoving, "_is_next", really)
    await move(store, places.slow)
    np.testing.assert_array_equal(await everything(store, GROUP), before)


async def test_a_server_that_lets_writing_go_first_exchanges_nothing(store: MysqlStore, places: MysqlPlaces) -> None:
    await places.run("SET @most = @@GLOBAL.max_write_lock_count, GLOBAL max_write_lock_count = 10")
    try:
        with pytest.raises(StoreError, match="max_write_lock_count is 10 on the server; leave it at its default"):
            await move(store, places.slow)
    finally:
        await places.run("SET GLOBAL max_write_lock_count = @most")
    await move(store, places.slow)
    assert (await partition_of(store, noon(2))).place == places.slow


async def test_what_is_too_large_for_the_buffer_pool_is_refused_before_it_is_copied(
    store: MysqlStore, places: MysqlPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.mysql.moving.OF_POOL", 10_000_000)
    there = await places.tables()
    with pytest.raises(StoreError, match=r"more than a third of innodb_buffer_pool_size .*; raise that on the server"):
        await move(store, places.slow)
    assert await places.tables() == there


@pytest.mark.parametrize("kind", ["mysql-rows"])
async def test_what_the_writing_would_wait_too_long_for_is_tried_once(
    store: MysqlStore, places: MysqlPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = (await period_of(store, noon(2))).name
    columns = [column.name for column in store._tables[GROUP.name].data.c]
    more = ", ".join("run + 10 + seq" if column == "run" else f"`{column}`" for column in columns)
    into = f"bpm ({', '.join(f'`{column}`' for column in columns)})"
    await places.run(f"INSERT INTO {into} SELECT {more} FROM bpm PARTITION (p{name}), seq_1_to_20")
    before = await everything(store, GROUP)
    tried: list[str] = []
    really = MysqlMoving._exchange_now

    async def exchange(self: MysqlMoving, *arguments: Any) -> None:
        tried.append("exchange")
        self._held_most_s = 1e-3
        await really(self, *arguments)

    monkeypatch.setattr(MysqlMoving, "_exchange_now", exchange)
    too_large = "too large to be exchanged within .* s, while the writing waits; set a shorter `partition`"
    with pytest.raises(StoreError, match=too_large):
        await move(store, places.slow)
    np.testing.assert_array_equal(await everything(store, GROUP), before)
    store._moving.keywords["held_most_s"] = 1e-3
    with pytest.raises(StoreError, match=too_large):
        await move(store, places.slow)
    assert tried == ["exchange"]
    assert len(await store.moves()) == 1
    monkeypatch.setattr(MysqlMoving, "_exchange_now", really)
    store._moving.keywords["held_most_s"] = 15.0
    await move(store, places.slow)
    np.testing.assert_array_equal(await everything(store, GROUP), before)
    assert await store.moves() == ()


async def test_columns_of_an_operator_go_along(store: MysqlStore, places: MysqlPlaces) -> None:
    await places.run("ALTER TABLE bpm ADD COLUMN note INT DEFAULT 7, ADD COLUMN twice INT AS (2 * note) VIRTUAL")
    name = (await period_of(store, noon(2))).name
    await places.run(f"UPDATE bpm PARTITION (p{name}) SET note = 5 LIMIT 3")
    notes = "SELECT note, twice, COUNT(*) FROM bpm GROUP BY note, twice ORDER BY note"
    before = await places.fetch(notes)
    assert before[0] == (5, 10, 3)
    await move(store, places.slow)
    assert await places.fetch(notes) == before


@pytest.mark.parametrize("change", ["ADD COLUMN note INT DEFAULT 7", "ADD INDEX (trigger_id)", "DROP PARTITION p{}"])
async def test_a_table_that_is_altered_meanwhile_is_copied_anew(
    store: MysqlStore, places: MysqlPlaces, change: str
) -> None:
    name = (await period_of(store, noon(2))).name
    before = await everything(store, GROUP)
    is_first = True

    async def pace(done: float) -> None:
        nonlocal is_first
        if done == 1.0 and is_first:
            is_first = False
            await places.run(f"ALTER TABLE bpm {change.format(name)}")

    with pytest.raises(PeriodTouched):
        await move(store, places.slow, pace)
    assert await store.moves() == ()
    if "PARTITION" not in change:
        await move(store, places.slow)
        np.testing.assert_array_equal(await everything(store, GROUP), before)
        assert (await partition_of(store, noon(2))).place == places.slow


async def test_a_moved_period_takes_part_in_what_the_server_does_with_the_table(
    store: MysqlStore, places: MysqlPlaces, make: Make, opened: Callable[..., Any]
) -> None:
    """New partitions are cut, and an index is added; the directory stays."""
    before = await everything(store, GROUP)
    await move(store, places.slow)
    later = "PARTITION later VALUES LESS THAN (9000000000000000000), PARTITION rest VALUES LESS THAN MAXVALUE"
    await places.run(f"ALTER TABLE bpm REORGANIZE PARTITION rest INTO ({later})")
    await places.run("ALTER TABLE bpm ADD INDEX (trigger_id)")
    assert (await partition_of(store, noon(2))).place == places.slow
    np.testing.assert_array_equal(await everything(store, GROUP), before)
    await move(store, None)
    np.testing.assert_array_equal(await everything(store, GROUP), before)


async def test_a_right_that_is_lacking_is_named_with_the_fix(
    store: MysqlStore, places: MysqlPlaces, schema: str, dsn: str
) -> None:
    guest = f"guest_{schema}"
    await places.run(f"CREATE USER {guest}@'%'")
    await places.run(
        f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, CREATE VIEW ON `{schema}`.* TO {guest}@'%'"
    )
    made = MysqlStore(
        DatabaseConfig(dsn=dsn.replace("root@", f"{guest}@"), schema=schema),
        logger="main",
        groups=by_group(GROUP),
        layouts={GROUP.name: Layout(store._tables[GROUP.name].layout)},
        places=(None, places.slow),
    )
    lacks = r"lacks a right to move readings \(.*denied.*\); let an administrator run `GRANT CREATE, ALTER, DROP, LOCK"
    for more in ("LOCK TABLES ON `{}`.*", "PROCESS ON *.*"):
        with pytest.raises(PlaceRefused, match=lacks):
            await made.check()
        await places.run(f"GRANT {more.format(schema)} TO {guest}@'%'")
    await made.check()
    await made.close()
    assert "tiers$probe" not in {name for (name,) in await places.fetch("SHOW TABLES")}
    await places.run(f"DROP USER {guest}@'%'")


MARIADB = """CREATE TABLE `bpm` (
  `time_ns` bigint(20) NOT NULL DEFAULT (1),
  PRIMARY KEY (`time_ns`)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='triggerlog abc'
 PARTITION BY RANGE (`time_ns`)
(PARTITION `first` VALUES LESS THAN (0) ENGINE = InnoDB,
 PARTITION `p20260101` VALUES LESS THAN (100) DATA DIRECTORY = '/mnt/slow' ENGINE = InnoDB,
 PARTITION `rest` VALUES LESS THAN MAXVALUE ENGINE = InnoDB)"""
MYSQL = """CREATE TABLE `bpm` (
  `time_ns` bigint NOT NULL DEFAULT (1),
  PRIMARY KEY (`time_ns`)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='triggerlog abc'
/*!50100 PARTITION BY RANGE (`time_ns`)
(PARTITION `first` VALUES LESS THAN (0) ENGINE = InnoDB,
 PARTITION p20260101 VALUES LESS THAN (100) DATA DIRECTORY = '/mnt/slow/' ENGINE = InnoDB,
 PARTITION rest VALUES LESS THAN MAXVALUE ENGINE = InnoDB) */"""


@pytest.mark.parametrize("definition", [MARIADB, MYSQL])
def test_what_a_server_says_of_a_table_is_understood(definition: str) -> None:
    assert places_of(definition) == {"first": None, "p20260101": "/mnt/slow", "rest": None}
    assert place_of(definition) is None
    made = beside(definition, "`s`.`copy`", "/mnt/slow")
    assert made.startswith("CREATE TABLE `s`.`copy` (\n  `time_ns` bigint")
    assert made.endswith("COMMENT='triggerlog abc' DATA DIRECTORY='/mnt/slow'")
    assert place_of(made) == "/mnt/slow"
    assert beside(made, "`s`.`back`", None).endswith("COMMENT='triggerlog abc'")

"""The keeper of tiers on a MariaDB: what it does there by the directories of tiers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from backends.base import PlaceRefused
from backends.mysql import MysqlStore
from daemon.core.configuration import load_config
from daemon.core.configuration.database import in_its_field
from daemon.core.monitoring.events import Events
from daemon.tiers.keeper import TierKeeper
from daemon.workloads.readers.manager import Readers
from schemas.batch import Layout
from schemas.config import Config, DatabaseConfig, Workload
from schemas.queries import LedgerTail, WindowReadings
from schemas.retention import Period, Rule
from tests.daemon.tiers.test_keeper import (
    GROUP,
    HOUR_NS,
    HOURS,
    NOW_NS,
    TRIGGERS,
    at_once,
    keeper_of,
    places,
    whole,
    write,
)
from tests.support.batches import by_group
from tests.support.servers import server_folder


@pytest.fixture
async def store(mariadb_dsn: str, schema: str) -> AsyncIterator[MysqlStore]:
    """An hour a partition; the newest ended an hour ago."""
    with server_folder() as folder:
        made = MysqlStore(
            DatabaseConfig(dsn=mariadb_dsn, schema=schema, partition="hour"),
            logger="main",
            groups=by_group(GROUP),
            layouts={GROUP.name: Layout.ROWS},
            places=(None, f"{folder}/slow"),
        )
        try:
            await made.open()
            for number in range(HOURS):
                await write(made, number + 1, NOW_NS - (HOURS - number) * HOUR_NS)
            yield made
        finally:
            async with made._reader() as connection:
                await connection.run(f"DROP DATABASE `{schema}`")
            await made.close()


def config_of(store: MysqlStore, after_days: float | None = 2.5 / 24, **tiering: str) -> Config:
    _, slow = store._places
    return Config.model_validate(
        {
            "groups": [{"name": GROUP.name, "count": GROUP.size, "channels": [{"name": "ch0"}]}],
            "tiers": [
                {"name": "fast", "max_gib": 1000},
                {"name": "slow", "directory": slow, "after_days": after_days},
            ],
            "tiering": tiering,
            "database": {"partition": "hour", "dsn": store._database.dsn},
        }
    )


async def two_on_the_slow_disk(store: MysqlStore) -> list[str]:
    """Move the two oldest hours there; return the names of all, the oldest first."""
    hours = [each for each in (await store.partitions())[GROUP.name] if each.name.isdigit() and each.start_ns < NOW_NS]
    for one in hours[:2]:
        period = Period(group=GROUP.name, name=one.name, start_ns=one.start_ns, end_ns=one.end_ns)
        await store.move(period, store._places[1], pace=at_once, patience_s=5)
    return [each.name for each in hours]


def heats(keeper: TierKeeper, names: list[str]) -> list[float | None]:
    return [keeper.heat_of(GROUP.name, name) for name in names]


def hour(number: int) -> dict[str, Any]:
    """The stretch of one, by its place in the list."""
    start_ns = NOW_NS - (HOURS - number) * HOUR_NS
    return {"start_ns": start_ns, "end_ns": start_ns + HOUR_NS}


async def test_age_moves_hours_and_retention_drops_what_was_moved(store: MysqlStore, tmp_path: Path) -> None:
    events = Events()
    keeper, _ = keeper_of(store, tmp_path, config_of(store), events)
    await keeper.look()
    _, slow = store._places
    assert await places(store) == [slow, slow, None, None, None, None]
    status = keeper.status()
    assert status is not None
    assert (status.problem, status.moved, status.waiting, status.moving) == (None, 2, 0, None)
    assert [(tier.name, tier.partitions) for tier in status.tiers] == [("fast", 4), ("slow", 2)]
    assert status.tiers[1].size_bytes > 0
    assert "was moved from fast to slow" in events.newest()[0].text
    await write(store, HOURS + 1, NOW_NS)
    await keeper.look()
    assert await places(store) == [slow, slow, slow, None, None, None]
    assert await whole(store, HOURS + 1)
    of = (await store.partitions())[GROUP.name][1]
    period = Period(group=GROUP.name, name=of.name, start_ns=of.start_ns, end_ns=of.end_ns)
    await store.drop(period, Rule.AGE, at_ns=5, patience_s=5)
    assert await places(store) == [slow, slow, None, None, None]


async def test_a_directory_that_cannot_be_used_is_named_with_the_fix(store: MysqlStore) -> None:
    refused = "cannot make a table in '/proc/nowhere' .*; make the folder on the server's node, owned by the server's"
    store._places = (None, "/proc/nowhere")
    for look in (store.check, store.open):
        with pytest.raises(PlaceRefused, match=refused) as error:
            await look()
        assert in_its_field(error.value, config_of(store)).startswith("tiers[1].directory: ")


async def test_an_hour_that_the_daemon_is_asked_for_moves_back_and_a_restart_forgets_nothing(
    store: MysqlStore, tmp_path: Path
) -> None:
    config = config_of(store, None, policy="access")
    names = await two_on_the_slow_disk(store)
    keeper, _ = keeper_of(store, tmp_path, config)
    await store.ask(LedgerTail(group=GROUP, most=5))
    await keeper.look()
    assert heats(keeper, names) == [0] * HOURS, "committing, moving and the ledger read nothing"
    assert keeper.heat_of(GROUP.name, "never") is None
    found = await store.ask(WindowReadings(group=GROUP, **hour(1)))
    assert len(found) == TRIGGERS * GROUP.size
    await keeper.look()
    slow = store._places[1]
    assert await places(store) == [slow, slow, None, None, None, None], "it is not hot for long enough yet"
    hot = keeper.heat_of(GROUP.name, names[1])
    assert hot
    assert heats(keeper, names) == [0, hot, 0, 0, 0, 0]
    status = keeper.status()
    assert status is not None
    assert status.next is not None
    assert (status.next.name, status.next.tier, status.next.at_ns) == (names[1], "fast", NOW_NS + 6 * HOUR_NS)
    assert [tier.heat_s_a_day for tier in status.tiers] == [0, hot]
    # Killed: what was read up to the last look is on the disk.
    events = Events()
    keeper, clock = keeper_of(store, tmp_path, config, events)
    await keeper.look()
    assert keeper.heat_of(GROUP.name, names[1]) == pytest.approx(hot)
    clock.utc_ns += 6 * HOUR_NS
    await keeper.look()
    assert await places(store) == [slow, None, None, None, None, None]
    assert "was moved from slow to fast" in events.newest()[0].text
    assert keeper.heat_of(GROUP.name, names[1]) == pytest.approx(hot * 2**-0.25)
    await keeper.look()
    assert await places(store) == [slow, None, None, None, None, None]
    assert await whole(store)


@pytest.mark.slow
async def test_an_hour_that_a_reader_workload_reads_moves_back(store: MysqlStore, tmp_path: Path) -> None:
    names = await two_on_the_slow_disk(store)
    file = tmp_path / "beam.toml"
    channels = ", ".join(f'{{ name = "{channel.name}" }}' for channel in GROUP.channels)
    file.write_text(
        f'[[groups]]\nname = "{GROUP.name}"\ncount = {GROUP.size}\nchannels = [{channels}]\n'
        f'[database]\ndsn = "{store._database.dsn}"\nschema = "{store._database.schema_name}"\n'
    )
    readers = Readers(load_config(file), Events(), pause_s=0.1)
    keeper, clock = keeper_of(store, tmp_path, config_of(store, None, policy="access"))
    keeper._workloads_read = readers.read.take
    try:
        await keeper.look()
        assert heats(keeper, names) == [0] * HOURS
        # An hour each time, from anywhere behind the first trigger, so that the next hour's readings are in it.
        reading = {"name": "w", "kind": "window", "clients": 2, "period_s": 0.05, "stretch_s": 3600.0}
        await readers.start(Workload.model_validate(reading))
        async with asyncio.timeout(120):
            while not keeper.heat_of(GROUP.name, names[1]):
                await asyncio.sleep(0.2)
                await keeper.look()
    finally:
        await readers.end()
    clock.utc_ns += 6 * HOUR_NS
    await keeper.look()
    assert keeper.heat_of(GROUP.name, names[0]) == 0
    assert await places(store) == [store._places[1], *[None] * (HOURS - 1)]
    assert await whole(store)

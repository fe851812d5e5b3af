"""The keeper of tiers on a MariaDB: what it does there by the directories of tiers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backends.base import PlaceRefused
from backends.mysql import MysqlStore
from daemon.core.configuration.database import in_its_field
from daemon.core.monitoring.events import Events
from schemas.batch import Layout
from schemas.config import Config, DatabaseConfig
from schemas.retention import Period, Rule
from tests.daemon.tiers.test_keeper import GROUP, HOUR_NS, HOURS, NOW_NS, keeper_of, places, whole, write
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


def config_of(store: MysqlStore, after_days: float = 2.5 / 24) -> Config:
    _, slow = store._places
    return Config.model_validate(
        {
            "groups": [{"name": GROUP.name, "count": GROUP.size, "channels": [{"name": "ch0"}]}],
            "tiers": [{"name": "fast"}, {"name": "slow", "directory": slow, "after_days": after_days}],
            "database": {"partition": "hour", "dsn": store._database.dsn},
        }
    )


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

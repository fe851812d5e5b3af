"""A process that drops periods until killed, as the daemon's keeper of retention does, and what it drops."""

import asyncio
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from backends.base import Store
from backends.kinds import KINDS
from backends.mysql import MysqlStore
from backends.postgresql import PostgresqlStore
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.retention.keeper import RetentionKeeper
from schemas.batch import JournalPosition, Layout
from schemas.checking.dsn import backend_of
from schemas.config import Config, DatabaseConfig
from tests.support.batches import batch_of, by_group, group_of, readings_of

# Imported once, for all that are forked.
for _kind in KINDS.values():
    _kind.implementation("store")

GROUP = group_of(size=4)
HOUR_NS = 3_600_000_000_000
HOURS = 40
TRIGGERS = 300
TIMEOUT_S = 5.0
CONFIG = Config.model_validate(
    {
        "groups": [{"name": GROUP.name, "count": GROUP.size, "channels": [{"name": "ch0"}]}],
        "retention": {"keep_days": 2.5 / 24, "check_every_s": 1},
        "database": {"partition": "hour"},
    }
)


def store_at(dsn: str, schema: str) -> Store:
    """The store of the group."""
    made = PostgresqlStore if backend_of(dsn).value == "postgresql" else MysqlStore
    return made(
        DatabaseConfig(dsn=dsn, schema=schema, partition="hour", command_timeout_s=TIMEOUT_S),
        logger="main",
        groups=by_group(GROUP),
        layouts={GROUP.name: Layout.ARRAYS},
    )


async def fill(store: Store) -> None:
    """An hour a partition, a run an hour, the last of them now."""
    rng = np.random.default_rng(5)
    now_ns = time.time_ns() // HOUR_NS * HOUR_NS
    for number in range(1, HOURS + 1):
        times = now_ns - (HOURS - number) * HOUR_NS + np.arange(TRIGGERS) * 1_000_000
        readings = readings_of(GROUP, np.arange(TRIGGERS), times, rng)
        to = JournalPosition(
            sequence=number, triggers=number * TRIGGERS, readings=number * TRIGGERS * GROUP.size, journal=9
        )
        await store.commit(batch_of(GROUP, number, readings, run=number, position=to))


def keeper_of(store: Store) -> RetentionKeeper:
    """What drops all but the newest hours."""
    return RetentionKeeper(store, CONFIG, Path(), Outside.real(), Events(), pipelines={})


def live(dsn: str, schema: str, said: Connection) -> None:
    """Drop until killed."""

    async def drop() -> None:
        store = store_at(dsn, schema)
        await store.open()
        said.send(-1)
        while True:
            await keeper_of(store).look()
            await asyncio.sleep(0.01)

    asyncio.run(drop())

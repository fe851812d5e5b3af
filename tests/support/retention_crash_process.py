"""A process that drops periods until killed, as the daemon's keeper of retention does, and what it drops."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from backends.base import Store
from backends.kinds import KINDS
from backends.mongodb import MongodbStore
from backends.mysql import MysqlStore
from backends.postgresql import PostgresqlStore
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.retention.keeper import RetentionKeeper
from schemas.batch import JournalPosition, Layout
from schemas.checking.dsn import Backend, backend_of
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


STORES: dict[Backend, Callable[..., Store]] = {
    Backend.POSTGRESQL: PostgresqlStore,
    Backend.MYSQL: MysqlStore,
    Backend.MONGODB: MongodbStore,
}


@dataclass(frozen=True, kw_only=True)
class Filling:
    """How much there is to drop."""

    hours: int = HOURS
    triggers: int = TRIGGERS


MUCH = Filling()
# FerretDB reads all that there is for each question.
LITTLE = Filling(hours=9, triggers=60)


def filling_of(dsn: str) -> Filling:
    """What a server is filled with."""
    return LITTLE if backend_of(dsn) is Backend.MONGODB else MUCH


def store_at(dsn: str, schema: str) -> Store:
    """The store of the group."""
    return STORES[backend_of(dsn)](
        DatabaseConfig(dsn=dsn, schema=schema, partition="hour", command_timeout_s=TIMEOUT_S),
        logger="main",
        groups=by_group(GROUP),
        layouts={GROUP.name: Layout.ARRAYS},
    )


async def fill(store: Store, filling: Filling = MUCH) -> None:
    """An hour a partition, a run an hour, the last of them now."""
    rng = np.random.default_rng(5)
    now_ns, each = time.time_ns() // HOUR_NS * HOUR_NS, np.arange(filling.triggers)
    for number in range(1, filling.hours + 1):
        times = now_ns - (filling.hours - number) * HOUR_NS + each * 1_000_000
        readings = readings_of(GROUP, each, times, rng)
        triggers = number * filling.triggers
        to = JournalPosition(sequence=number, triggers=triggers, readings=triggers * GROUP.size, journal=9)
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

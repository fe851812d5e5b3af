"""A process that reduces periods until killed, as the daemon's keeper of decimation does."""

import asyncio
from multiprocessing.connection import Connection

from backends.base import Store
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.decimation.keeper import DecimationKeeper
from schemas.config import Config
from tests.support.retention_crash_process import GROUP, store_at

CONFIG = Config.model_validate(
    {
        "groups": [{"name": GROUP.name, "count": GROUP.size, "channels": [{"name": "ch0"}]}],
        "decimation": {"after_days": 2.5 / 24, "bucket_s": 0.05, "mib_per_s": 100_000},
        "database": {"partition": "hour"},
    }
)


def keeper_of(store: Store) -> DecimationKeeper:
    """What reduces all but the newest hours."""
    return DecimationKeeper(store, CONFIG, Outside.real(), Events(), pipelines={})


def live(dsn: str, schema: str, said: Connection) -> None:
    """Reduce until killed."""

    async def reduce() -> None:
        store = store_at(dsn, schema)
        await store.open()
        said.send(-1)
        while True:
            await keeper_of(store).look()
            await asyncio.sleep(0.01)

    asyncio.run(reduce())

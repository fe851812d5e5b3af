"""A process that keeps a mark, or withdraws one, and kills itself with SIGKILL at one step of it."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any
from uuid import UUID

from backends.base import Store
from backends.postgresql import PostgresqlStore
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside, SystemDisk
from daemon.marks import MarkKeeper
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.marks import Mark
from tests.support.batches import group_of

STEPS = ("before the file", "after the file", "after the database", "after the removal", "never")


def make_store(dsn: str, schema: str) -> Store:
    group = group_of()
    config = DatabaseConfig(dsn=dsn, schema=schema)
    return PostgresqlStore(config, logger="main", groups={"bpm": group}, layouts={"bpm": Layout.ROWS})


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingDisk(SystemDisk):
    def __init__(self, step: str) -> None:
        super().__init__()
        self._step = step

    def replace(self, path: Path, data: bytes) -> None:
        if self._step == "before the file":
            _die()
        super().replace(path, data)
        if self._step == "after the file":
            _die()

    def remove(self, path: Path) -> None:
        if self._step == "after the database":
            _die()
        super().remove(path)
        if self._step == "after the removal":
            _die()


def order(dsn: str, schema: str, folder: Path, step: str, mark: Mark | UUID, said: Any) -> None:
    """Give the order; `said` hears "stored" or "waits" when it is answered."""

    async def run() -> None:
        outside = Outside.real()
        dying = Outside(clock=outside.clock, disk=DyingDisk(step), rng=outside.rng, workers=outside.workers)
        store = make_store(dsn, schema)
        await store.open()
        keeper = MarkKeeper(store, folder, dying, Events())
        await keeper.open()
        writing = asyncio.create_task(keeper.run())
        is_stored = await (keeper.keep(mark) if isinstance(mark, Mark) else keeper.withdraw(mark))
        said.send("stored" if is_stored else "waits")
        writing.cancel()
        await store.close()

    asyncio.run(run())

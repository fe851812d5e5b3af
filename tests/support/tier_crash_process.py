"""A process that moves periods of a logging daemon up and down until killed, as `triggerlog tiers move` does.

It is as patient, so that readers and the writing have their turn, too.
"""

import asyncio
import contextlib
import random
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from backends.base import Store, StoreError, Tiered
from daemon.core.configuration import load_config
from daemon.core.configuration.database import store_of
from daemon.retention.looking import patiently
from schemas.retention import Period
from tests.support.move_crash_process import at_once

AWAY_S = 0.05


async def periods_of(store: Store, group: str, end_ns: int) -> list[Period]:
    """The periods with readings that ended by then, the oldest first."""
    return [
        Period(group=group, name=each.name, start_ns=each.start_ns, end_ns=each.end_ns)
        for each in (await store.partitions())[group]
        if each.name.isdigit() and each.rows and each.end_ns <= end_ns
    ]


async def _move(store: Tiered, period: Period, place: str | None, patience_s: float) -> None:
    await store.move(period, place, pace=at_once, patience_s=patience_s)


def live(file: Path, group: str, end_ns: int, slow: str, said: Connection) -> None:
    """Move until killed; says how many moves have ended."""

    async def moving() -> None:
        store, rng, moved = store_of(load_config(file)), random.Random(), 0
        assert isinstance(store, Tiered)
        periods = await periods_of(store, group, end_ns)
        said.send(0)
        while True:
            period, place = rng.choice(periods), rng.choice((slow, None))
            act = partial(_move, store, period, place)
            try:
                await patiently(act, "it is always in use")
            except StoreError:
                await asyncio.sleep(AWAY_S)  # the server was killed
            else:
                moved += 1
                with contextlib.suppress(BrokenPipeError):
                    said.send(moved)

    asyncio.run(moving())

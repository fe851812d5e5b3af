"""A process that moves periods between two places until killed, and what it moves."""

import asyncio
import contextlib
import random
from multiprocessing.connection import Connection

from backends.base import Store, StoreBusy, Tiered
from schemas.retention import Period
from tests.support.retention_crash_process import GROUP, store_at

HOURS_MOVED = 6
"""So many of the oldest periods are moved, one after the other, again and again."""


async def periods_of(store: Store) -> list[Period]:
    """The periods that are moved, the oldest first."""
    found = [each for each in (await store.partitions())[GROUP.name] if each.name.isdigit() and each.rows]
    return [
        Period(group=GROUP.name, name=each.name, start_ns=each.start_ns, end_ns=each.end_ns)
        for each in found[:HOURS_MOVED]
    ]


async def at_once(done: float) -> None:
    """Wait for nothing, so that most of the time something is under way."""


async def move_on(store: Store, slow: str, periods: list[Period], rng: random.Random) -> None:
    """Move one of the periods, or go on with it; somebody may be in the way."""
    assert isinstance(store, Tiered)
    with contextlib.suppress(StoreBusy):
        await store.move(rng.choice(periods), rng.choice((slow, None)), pace=at_once, patience_s=1)


def live(dsn: str, schema: str, slow: str, said: Connection) -> None:
    """Move until killed."""

    async def moving() -> None:
        store = store_at(dsn, schema)
        await store.open()
        periods, rng = await periods_of(store), random.Random()
        said.send(-1)
        while True:
            await move_on(store, slow, periods, rng)

    asyncio.run(moving())

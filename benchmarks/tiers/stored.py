"""Readings of old hours in the daemon's own tables, and their moves by the code of `triggerlog tiers`."""

import time
from collections.abc import Awaitable, Iterator, Sequence

import numpy as np

from backends.base import Pace, Partition, Store, StoreError, Tiered
from benchmarks.load.workload import GROUP, closed_triggers, random_records
from benchmarks.servers.base import Server
from daemon.retention.looking import patiently
from daemon.tiers.pace import Paced
from schemas.batch import Batch, Durability, JournalPosition, Layout
from schemas.retention import Period

HOUR_NS = 3_600_000_000_000
BATCH = 500
NEWER = 2
"""Hours that stay free between the newest of old readings and now."""
UNPACED = 100_000.0
"""MiB/s that no disk reaches."""


def hourly_store(server: Server, schema: str, layout: Layout) -> Store:
    """The daemon's own store, with a partition an hour."""
    return server.store(schema, layout, partition="hour")


def first_hour_ns(periods: int) -> int:
    """When the first of so many hours begins that end before now, ns since 1970-01-01 UTC."""
    return (time.time_ns() // HOUR_NS - periods - NEWER) * HOUR_NS


async def fill(store: Store, periods: int, triggers: int) -> None:
    """Commit triggers evenly over old hours, so many in each, numbered from 0 on."""
    await store.open()
    begun_ns = first_hour_ns(periods)
    for batch in _batches(periods * triggers, begun_ns, HOUR_NS // triggers):
        await store.commit(batch)


def _batches(triggers: int, begun_ns: int, period_ns: int) -> Iterator[Batch]:
    for start in range(0, triggers, BATCH):
        records = random_records(min(BATCH, triggers - start), seed=start)
        numbers = np.arange(start, start + len(records))
        records["trigger"] = numbers[:, None]
        records["time_ns"] = (begun_ns + numbers * period_ns)[:, None]
        closed = closed_triggers(records)
        yield Batch(
            readings=closed.readings,
            present=closed.present,
            ledger=closed.ledger,
            late=closed.late,
            late_of=closed.late_of,
            revised=closed.revised,
            group=GROUP,
            position=JournalPosition(sequence=start + 1),
            durability=Durability.SYNC,
        )


async def periods_of(store: Store) -> list[Partition]:
    """The partitions that have readings, in order of time."""
    found = (await store.partitions())[GROUP.name]
    return [each for each in found if each.readings_bytes and each.may_move and each.rows]


def period_of(partition: Partition) -> Period:
    """What a partition is to the code that moves or reduces it."""
    return Period(group=GROUP.name, name=partition.name, start_ns=partition.start_ns, end_ns=partition.end_ns)


async def move(
    store: Store, partition: Partition, place: str | None, mib_per_s: float = UNPACED, tries: list[int] | None = None
) -> None:
    """Move a partition as `triggerlog tiers move` does, with the same patience.

    tries: gets a number more for each call of the store.

    Raises:
        PeriodTouched: readings of it came meanwhile.
        StoreError: it cannot be moved.
    """
    if not isinstance(store, Tiered):
        raise StoreError("this store has no tiers")
    tiered: Tiered = store
    period = period_of(partition)
    pace: Pace = Paced((partition.readings_bytes or 0) - partition.index_bytes, mib_per_s)

    def once(patience_s: float) -> Awaitable[None]:
        if tries is not None:
            tries.append(1)
        return tiered.move(period, place, pace=pace, patience_s=patience_s)

    await patiently(once, f"{period.name} is always in use")


async def move_all(store: Store, partitions: Sequence[Partition], place: str | None) -> None:
    """Move partitions, one after the other."""
    for each in partitions:
        await move(store, each, place)

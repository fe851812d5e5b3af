"""A throw-away PostgreSQL with a tablespace on a slow disk, whose caches can be made cold."""

import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psycopg
from psycopg import sql

from backends.base import Pace, Partition, Store, StoreError, Tiered
from backends.throwaway import ServerNotInstalled
from benchmarks.load.workload import GROUP, closed_triggers, random_records
from benchmarks.rounds.rounds import print_line
from benchmarks.servers.base import Server
from benchmarks.servers.sizes import Small
from benchmarks.servers.small import running
from benchmarks.tiers.plan import Disk
from benchmarks.tiers.slow_disk.choice import SlowDisk
from benchmarks.tiers.slow_disk.probe import measured
from daemon.retention.looking import patiently
from daemon.tiers.pace import Paced
from schemas.batch import Batch, Durability, JournalPosition, Layout
from schemas.checking.dsn import Backend
from schemas.retention import Period

SLOW = "slow"
"""Name of the tablespace."""
COSTS = {"random_page_cost": 30, "seq_page_cost": 3}
"""As docs/tiers.md tells the planner."""


@dataclass(frozen=True, kw_only=True)
class TieredServer:
    """A server. data: its folder, on the fast disk; slow: that of its tablespace, where it has one."""

    server: Server
    data: Path
    slow: Path | None
    restart: Callable[[], object]

    def make_cold(self) -> None:
        """Empty the server's cache and, of its files alone, the system's."""
        self.restart()
        for folder in (self.data, self.slow):
            if folder is not None:
                forget(folder)


@contextmanager
def tiered(
    folder: Path, disk: SlowDisk | None, cache_mib: int, settings: Mapping[str, str] | None = None
) -> Iterator[TieredServer]:
    """Run a server; it is gone afterwards. disk: without one, it has no tablespace.

    Raises:
        ServerNotInstalled: there is none.
        StoreError: it does not start.
    """
    own = {} if disk is None else disk.settings
    small = Small(cache_mib=cache_mib, postgresql={**own, **(settings or {})}, connections=100)
    with running(folder, {"postgresql": Backend.POSTGRESQL}, print_line, small) as found:
        if "postgresql" not in found.servers:
            raise ServerNotInstalled(" ".join(found.notes))
        server = found.servers["postgresql"]
        data = (server.folder / "postgresql").resolve()
        slow = None if disk is None else disk.folder / folder.name
        if slow is not None:
            _make_tablespace(server.dsn, slow, data)
        yield TieredServer(server=server, data=data, slow=slow, restart=found.restart["postgresql"])


def disks_of(part: str, disk: SlowDisk, fast: Path) -> Disk:
    """Measure both disks. fast: a folder on the fast one."""
    slow, quick = measured(disk.folder), measured(fast)
    found = Disk(
        part=part,
        kind=disk.words,
        iops=slow["iops"],
        mb_per_s=slow["mb_per_s"],
        fast_iops=quick["iops"],
        fast_mb_per_s=quick["mb_per_s"],
    )
    print_line(
        f"{disk.words}: {found.iops:.0f} random reads/s, {found.mb_per_s:.0f} MB/s; the fast disk:"
        f" {found.fast_iops:,.0f} and {found.fast_mb_per_s:,.0f}"
    )
    return found


def forget(folder: Path) -> None:
    """Take all files of a folder out of the page cache, and nobody else's."""
    for path in folder.rglob("*"):
        # The server may remove one meanwhile.
        with suppress(FileNotFoundError):
            if not path.is_file() or path.is_symlink():
                continue
            file = os.open(path, os.O_RDONLY)
            try:
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def _make_tablespace(dsn: str, folder: Path, data: Path) -> None:
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(folder, data.stat().st_uid, data.stat().st_gid)
    costs = sql.SQL(", ").join(sql.SQL("{} = {}").format(sql.Identifier(name), value) for name, value in COSTS.items())
    with psycopg.connect(dsn, autocommit=True) as connection:
        name, place = sql.Identifier(SLOW), sql.Literal(str(folder))
        connection.execute(sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(name, place))
        connection.execute(sql.SQL("ALTER TABLESPACE {} SET ({})").format(name, costs))


# --- readings in its tables ------------------------------------------------------------------------------------------

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

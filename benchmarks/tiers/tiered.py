"""A throw-away PostgreSQL with a tablespace on a slow disk, whose caches can be made cold."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from backends.throwaway import ServerNotInstalled
from benchmarks.rounds.progress import print_line
from benchmarks.servers.base import Server
from benchmarks.servers.sizes import Small
from benchmarks.servers.small import running
from benchmarks.tiers.record import Disk
from benchmarks.tiers.slow_disk.choice import SlowDisk
from benchmarks.tiers.slow_disk.probe import measured
from schemas.checking.dsn import Backend

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

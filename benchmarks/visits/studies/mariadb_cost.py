"""What visits cost a MariaDB: `python -m benchmarks.visits.studies.mariadb_cost MODE ...`. Decision 0038.

Visits run one after another in this process. For each method of the store it prints, over the last quarter of the
visits: time, processor time of the server and of this process, pages read, and that a row. Processor time and pages are
what other programs on the machine disturb least.
"""

import argparse
import asyncio
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

from backends.mysql.protocol.connection import Connection
from backends.mysql.server.address import address_of, connect
from backends.mysql.visits import MysqlVisitStore
from backends.throwaway.mariadb import ThrowawayMariadb
from benchmarks.studies.questions import Cost
from daemon.workloads.visits.association import detections
from daemon.workloads.visits.cadence import first_at, time_of
from daemon.workloads.visits.sky import Sky
from daemon.workloads.visits.tile import Past, TileWork
from daemon.workloads.visits.tiles import tiles_of
from schemas.config import DatabaseConfig
from schemas.config.visits import Transactions, VisitsConfig
from schemas.visits.records import VisitRecord

METHODS = ("begin", "objects", "sources", "forced_sources", "write", "finish")
TIMEOUT_S = 600


class Account:
    """Costs by method: seconds, the server's, ours, pages, rows."""

    def __init__(self, store: MysqlVisitStore, monitor: Connection, pid: int) -> None:
        self._monitor = monitor
        self._pid = pid
        self.costs: dict[str, Any] = defaultdict(lambda: np.zeros(5))
        for name in METHODS:
            setattr(store, name, self._counted(name, getattr(store, name)))

    def _counted(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*arguments: Any) -> Any:
            before, cost = await self._pages(), Cost(self._pid)
            answer = await method(*arguments)
            spent = cost.since()
            rows = len(answer) if name in METHODS[1:4] else 0
            self.costs[name] += [*spent, await self._pages() - before, rows]
            return answer

        return counted

    async def _pages(self) -> int:
        ((_, pages),) = await self._monitor.fetch("SHOW GLOBAL STATUS LIKE 'Innodb_pages_read'")
        return int(pages)


async def run(mode: str, arguments: argparse.Namespace, folder: Path) -> None:
    """Run the visits of one index mode, and print what they cost."""
    visits = VisitsConfig.model_validate(
        {
            "index_mode": mode,
            "survey": {"scale": arguments.scale},
            "pixel_level": arguments.level,
            "history_days": arguments.history_days,
            "transactions": Transactions.THREE,
        }
    )
    server = ThrowawayMariadb(folder, innodb_buffer_pool_size=arguments.pool)
    dsn = server.start()
    store = MysqlVisitStore(DatabaseConfig(dsn=dsn, command_timeout_s=TIMEOUT_S), visits)
    monitor = await connect(address_of(dsn), program="cost", timeout_s=TIMEOUT_S)
    try:
        await store.create()
        assert server.pid is not None
        account = Account(store, monitor, server.pid)
        sky, last_object, last_source = Sky(visits.survey), 0, 0
        for visit in range(arguments.visits):
            if visit == arguments.visits * 3 // 4:
                account.costs.clear()
            exposure = sky.exposure(visit, last_object)
            detected = detections(
                visits.survey,
                exposure,
                last_object_id=last_object,
                last_source_id=last_source,
                pixel_level=arguments.level,
            )
            assert visits.window_ns is not None
            since = max(0, first_at(visits.survey, exposure.time_ns - visits.window_ns))
            since_ns = time_of(visits.survey, since)
            past = Past(since_visit=since, since_ns=since_ns, done=await store.begin(visit, exposure.time_ns))
            await store.expire(since_ns)
            (tile,) = tiles_of(exposure.pointing, visits.survey.field_radius, 1)
            await TileWork(store, visits, detected, past).do(tile)
            last_object, last_source = exposure.last_object_id, last_source + len(exposure.ids)
            await store.finish(
                VisitRecord(
                    visit=visit,
                    time_ns=exposure.time_ns,
                    ra=exposure.ra,
                    decl=exposure.decl,
                    last_object_id=last_object,
                    last_source_id=last_source,
                )
            )
        print_costs(mode, account, arguments.visits - arguments.visits * 3 // 4)
    finally:
        await store.close()
        monitor.terminate()
        server.stop()


def print_costs(mode: str, account: Account, visits: int) -> None:
    """Print the costs of a visit, and of a row."""
    print(f"{mode}: a visit, mean of the last {visits}")  # noqa: T201
    for name, (seconds, server, own, pages, rows) in account.costs.items():
        line = f"  {name:<15}{seconds / visits * 1e3:>8.1f} ms, server {server / visits * 1e3:>6.1f} ms,"
        line += f" client {own / visits * 1e3:>5.1f} ms, {pages / visits:>6.0f} pages"
        if rows:
            line += (
                f"; {rows / visits:>6.0f} rows, each server {server / rows * 1e6:>5.1f} us, {pages / rows:.3f} pages"
            )
        print(line, flush=True)  # noqa: T201


def main() -> None:
    """Measure the modes named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.visits.studies.mariadb_cost")
    parser.add_argument("modes", nargs="+")
    parser.add_argument("--visits", type=int, default=400)
    parser.add_argument("--scale", type=float, default=0.02)
    parser.add_argument("--level", type=int, default=7)
    parser.add_argument("--history-days", type=float, default=365)
    parser.add_argument("--pool", default="16M")
    arguments = parser.parse_args()
    for mode in arguments.modes:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(run(mode, arguments, Path(folder)))


if __name__ == "__main__":
    main()

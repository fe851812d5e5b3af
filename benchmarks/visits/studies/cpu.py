"""`python -m benchmarks.visits.studies.cpu MODE...`: CPU time of a visit in PostgreSQL and here, by quarters.

Unlike seconds on a clock it says much the same on a machine that has other things to do. MODE is settings of `[visits]`
with commas between them, e.g. `index_mode=partitioned,pixel_level=7`.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
import psycopg

from backends import open_visit_store
from benchmarks.rounds.progress import print_line
from benchmarks.servers.small import running
from benchmarks.visits.measuring.plan import SERVERS
from daemon.workloads.frame.messages import Message
from daemon.workloads.visits.messages import Troubled, Visited, spec_of
from daemon.workloads.visits.visit_loop import VisitLoop
from daemon.workloads.visits.workers import Alone
from schemas.checking.dsn import Backend
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig

BACKEND_PID = "SELECT pid FROM pg_stat_activity WHERE application_name = 'triggerlog visits'"
QUARTERS = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.visits.studies.cpu", description=__doc__)
    parser.add_argument("--scale", type=float, default=0.02)
    parser.add_argument("--visits", type=int, default=480)
    parser.add_argument("modes", metavar="MODE", nargs="+")
    options = parser.parse_args(arguments)
    # Not a folder of the user's alone: as root the server runs under another account.
    with (
        tempfile.TemporaryDirectory(prefix="triggerlog-", ignore_cleanup_errors=True) as folder,
        running(Path(folder) / "servers", {"alone": Backend.POSTGRESQL}, print_line, SERVERS) as found,
    ):
        for number, mode in enumerate(options.modes):
            settings = dict(setting.split("=", 1) for setting in mode.split(","))
            survey = {"scale": options.scale}
            fields = {"schema": f"visits_{number}", "cadence": "fast", "visits": options.visits, "survey": survey}
            visits = VisitsConfig.model_validate({**fields, **settings})
            dsn = found.servers["alone"].dsn
            sys.stdout.write(f"{mode}\n{_table(asyncio.run(_measured(dsn, visits)))}\n")
            sys.stdout.flush()
    return 0


async def _measured(dsn: str, visits: VisitsConfig) -> np.ndarray:
    """CPU seconds used up to the end of each visit, of the server's process and of this one; shape (visits, 2)."""
    database = DatabaseConfig(dsn=dsn)
    store = open_visit_store(database, visits, state_dir=Path())
    used: list[tuple[float, float]] = []
    server: list[psutil.Process] = []

    def print_visit(message: Message) -> None:
        if isinstance(message, Troubled):
            print_line(message.problem)
        if isinstance(message, Visited):
            if not server:
                server.append(_backend(dsn))
            times = server[0].cpu_times()
            # What draws the exposure is no part of a visit, and is not taken off: it is the same in all modes.
            used.append((times.user + times.system, time.process_time()))

    try:
        spec = spec_of(database, visits, state_dir=Path())
        await VisitLoop(spec, store, Alone(store, visits), print_visit, asyncio.Event()).run()
        await store.drop()
    finally:
        await store.close()
    return np.array(used)


def _backend(dsn: str) -> psutil.Process:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(BACKEND_PID).fetchone()
    assert row is not None
    return psutil.Process(row[0])


def _table(used: np.ndarray) -> str:
    """Milliseconds a visit in each quarter, and the growth from the first to the last."""
    ends = np.linspace(0, len(used) - 1, QUARTERS + 1).round().astype(int)
    a_visit = 1e3 * np.diff(used[ends], axis=0) / np.diff(ends)[:, None]
    rows = [("server", a_visit[:, 0]), ("here", a_visit[:, 1]), ("both", a_visit.sum(axis=1))]
    return "\n".join(
        f"  {name:7}" + "".join(f"{value:8.1f}" for value in values) + f"   grows by {values[-1] - values[0]:.1f} ms"
        for name, values in rows
    )


if __name__ == "__main__":
    sys.exit(main())

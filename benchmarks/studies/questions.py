"""What readers' questions cost a MariaDB or a MongoDB: `python -m benchmarks.studies.questions mariadb`. Decision 0030.

Every question in both layouts: how long it takes, and the processor time of the whole server and of the asker, which
other programs on the machine disturb less. `benchmarks.studies.postgresql_questions` asks a
PostgreSQL the same, and more.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import psutil

from backends.base import ReadOnly, Store
from backends.mongodb import MongodbStore
from backends.mysql import MysqlStore
from backends.throwaway.base import ServerProcess
from backends.throwaway.mariadb import ThrowawayMariadb
from backends.throwaway.mongodb import ThrowawayMongodb
from benchmarks.load.workload import GROUP, LOGGER, closed_triggers, random_records
from daemon.core.process.usage import family_seconds
from schemas.batch import Batch, Durability, JournalPosition, Layout
from schemas.config import DatabaseConfig
from schemas.queries import (
    Aggregate,
    InstrumentReadings,
    LedgerEnds,
    Means,
    NewestTrigger,
    Query,
    Snapshot,
    TriggersReadings,
    WindowReadings,
)
from schemas.readings import Array

SECOND_NS = 1_000_000_000
PERIOD_NS = SECOND_NS // 10
"""Ten triggers a second are the goal of the CBPM3 paper; in half an hour they are 2.16 million readings."""
BATCH = 500
SERVERS: dict[str, tuple[Callable[[Path], ServerProcess], type[MysqlStore] | type[MongodbStore]]] = {
    "mariadb": (ThrowawayMariadb, MysqlStore),
    "mongodb": (ThrowawayMongodb, MongodbStore),
}
Asked = Callable[[], Awaitable[Array]]


class Cost:
    """Processor time of a server, with all its processes, and of this one, in seconds."""

    def __init__(self, pid: int) -> None:
        self._server = psutil.Process(pid)
        self._begun = time.perf_counter(), *self._now()

    def since(self) -> tuple[float, float, float]:
        """Seconds that went by, and of them with the server and with us at work."""
        now = time.perf_counter(), *self._now()
        passed, server, own = (after - before for before, after in zip(self._begun, now, strict=True))
        return passed, server, own

    def _now(self) -> tuple[float, float]:
        return family_seconds(self._server), time.process_time()


def batches(first: int, triggers: int, size: int, begun_ns: int, period_ns: int = PERIOD_NS) -> Iterator[Batch]:
    """Complete triggers from a number on, so many in a batch."""
    for start in range(first, first + triggers, size):
        records = random_records(min(size, first + triggers - start), seed=start)
        numbers = np.arange(start, start + len(records))
        records["trigger"] = numbers[:, None]
        records["time_ns"] = (begun_ns + numbers * period_ns)[:, None]
        closed = closed_triggers(records)
        position = JournalPosition(sequence=start + 1)
        yield Batch(
            readings=closed.readings,
            present=closed.present,
            ledger=closed.ledger,
            late=closed.late,
            late_of=closed.late_of,
            revised=closed.revised,
            group=GROUP,
            position=position,
            durability=Durability.SYNC,
        )


def questions(begun_ns: int, triggers: int) -> list[Query]:
    """Ask what a control room asks, of triggers that began at a time."""
    end_ns = begun_ns + triggers * PERIOD_NS
    middle_ns = begun_ns + triggers // 2 * PERIOD_NS
    rng = np.random.default_rng(1)
    scattered = rng.choice(triggers, min(triggers, 10_000), replace=False).tolist()
    hour_ns = 3600 * SECOND_NS
    return [
        LedgerEnds(group=GROUP),
        NewestTrigger(group=GROUP),
        InstrumentReadings(group=GROUP, instrument=7, start_ns=end_ns - 100 * SECOND_NS, end_ns=end_ns, most=1000),
        Snapshot(group=GROUP, at_ns=middle_ns, within_ns=hour_ns),
        WindowReadings(group=GROUP, start_ns=middle_ns, end_ns=middle_ns + 10 * SECOND_NS),
        TriggersReadings(group=GROUP, run=1, triggers=tuple(scattered[:100])),
        TriggersReadings(group=GROUP, run=1, triggers=tuple(scattered)),
        Means(group=GROUP, start_ns=begun_ns, end_ns=end_ns, step_ns=60 * SECOND_NS),
        Aggregate(group=GROUP),
    ]


def print_line(line: str) -> None:
    """Print at once: a measurement takes minutes."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def ask_and_print(what: str, ask: Asked, pid: int, rounds: int) -> None:
    """Print the least of some rounds: what disturbs only adds."""
    found, answer = [], np.empty(0)
    for _ in range(rounds):
        cost = Cost(pid)
        answer = await ask()
        found.append(cost.since())
    passed, server, own = np.min(found, axis=0) * 1000
    print_line(f"{what:48}{len(answer):>10}{passed:>10.0f}{server:>10.0f}{own:>10.0f}")


async def ask_all(store: Store, layout: Layout, asked: list[Query], pid: int, rounds: int) -> None:
    """Ask a store everything, and print what each question took."""
    for query in asked:
        name = f"{layout} {type(query).__name__}"
        name += f" of {len(query.triggers)}" if isinstance(query, TriggersReadings) else ""
        await ask_and_print(name, partial(store.ask, query), pid, rounds)


def print_columns() -> None:
    """Print the headings of the columns of `ask_and_print`."""
    print_line(f"{'':48}{'rows':>10}{'ms':>10}{'server':>10}{'own':>10}")


async def _measure(kind: str, dsn: str, pid: int, options: argparse.Namespace) -> None:
    begun_ns = (time.time_ns() // (3600 * SECOND_NS)) * 3600 * SECOND_NS - options.triggers // 2 * PERIOD_NS
    print_line(
        f"{options.triggers:,} triggers of {GROUP.size} instruments in each layout, over two hours' partitions\n"
    )
    print_columns()
    for layout in Layout:
        database = DatabaseConfig(dsn=dsn, schema=f"bench_{layout}", partition="hour", command_timeout_s=120)
        make = partial(SERVERS[kind][1], database, logger=LOGGER, groups={"bpm": GROUP}, layouts={"bpm": layout})
        writer = make()
        await writer.open()
        for batch in batches(0, options.triggers, BATCH, begun_ns):
            await writer.commit(batch)
        await writer.close()
        reader = make(read_only=ReadOnly(connections=1, give_up_s=600))
        await ask_all(reader, layout, questions(begun_ns, options.triggers), pid, options.rounds)
        await reader.close()


def main() -> None:
    """Fill a server, ask it, and print what that took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.questions")
    parser.add_argument("server", choices=list(SERVERS))
    parser.add_argument("--triggers", type=int, default=18_000, help="how many are stored, at 10 a second")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is asked")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="triggerlog-bench-") as folder:
        Path(folder).chmod(0o711)  # as root the server runs under another account
        server = SERVERS[options.server][0](Path(folder))
        dsn = server.start()
        try:
            assert server.pid is not None
            asyncio.run(_measure(options.server, dsn, server.pid, options))
        finally:
            server.stop()


if __name__ == "__main__":
    main()

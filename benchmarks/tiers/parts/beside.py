"""Moves beside a daemon that writes 100 triggers a second and three reader workloads: blocks with and without them.

Old hours go through the daemon like all readings, as earlier triggers of the same run: the workload `random` asks for
them, wherever they lie.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import asyncpg
import numpy as np

from backends.base import Partition, Store
from benchmarks.load.sending import Sent, result, send, start_sending
from benchmarks.load.workload import GROUP, INSTRUMENTS
from benchmarks.rounds.rounds import begin, print_line
from benchmarks.rounds.summary import acknowledged_after, percentiles
from benchmarks.servers.daemon_process import DaemonProcess, running_daemon, until
from benchmarks.tiers.plan import Block, Plan
from benchmarks.tiers.tiered import HOUR_NS, NEWER, SLOW, TieredServer, hourly_store, move, periods_of
from schemas.batch import Layout
from schemas.queries import TOTALS, Totals

CACHE_MIB = 64
RATE = 100.0
AT_ONCE = 1e6
"""Triggers a second that no daemon takes: as fast as it can."""
MIB_PER_S = 16.0
"""As tiers move by default."""
LEAD_IN_S = 11.0
"""Percentiles of readers are of ten seconds: a block lasts at least so long."""
COUNT_EVERY_S = 1.0
START_S = 60.0
LONGEST_S = 3600.0
READERS: tuple[dict[str, object], ...] = (
    {"name": "newest", "kind": "newest", "clients": 4, "period_s": 0.5},
    {"name": "history", "kind": "history", "clients": 1, "period_s": 2.0, "stretch_s": 20.0, "step_s": 1.0},
    {"name": "random", "kind": "random", "clients": 1, "period_s": 1.0, "triggers": 20},
)


class CountsWrong(Exception):
    """Readings are missing, or there twice, at the end, or are not what was meant to be read."""


@dataclass
class _Looks:
    """Counts of readings of periods. moving: which one is moved now."""

    counted: int = 0
    wrong: int = 0
    moving: Partition | None = None


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """A block, but for what its sender knows. Times are CLOCK_MONOTONIC, in s."""

    begun: float
    ended: float
    down: int
    up: int
    tries: int
    readers_p99_ms: dict[str, float | None]
    counted: int
    wrong: int


@dataclass
class _Mover:
    """Moves periods down, the oldest first, and now and then one back up."""

    store: Store
    periods: list[Partition]
    looks: _Looks
    below: list[Partition] = field(default_factory=list)

    async def moves(self, down: int) -> tuple[int, int, int]:
        """Move so many down, and one up; how many were moved down, up, and tries."""
        tries: list[int] = []
        going, self.periods = self.periods[:down], self.periods[down:]
        for each in going:
            await self._move(each, SLOW, tries)
            self.below.append(each)
        rising = self.below.pop(0)
        await self._move(rising, None, tries)
        return len(going), 1, len(tries)

    async def _move(self, each: Partition, place: str | None, tries: list[int]) -> None:
        self.looks.moving = each
        await move(self.store, each, place, MIB_PER_S, tries)
        self.looks.moving = None


def beside(found: TieredServer, plan: Plan) -> list[Block]:
    """Blocks without moves and with them by turns, the first and the last without.

    Raises:
        CountsWrong: there is less or more in the end than was sent.
    """
    with running_daemon(found.server, Layout.ROWS, acknowledge_every_ms=0.0, partition="hour") as daemon:
        begin("tiers", "beside: old hours")
        filled = _fill(daemon, plan)
        sender = start_sending(daemon.port, seconds=LONGEST_S, rate=RATE, first=filled + 1)
        try:
            with _reading(daemon):
                seen = asyncio.run(_blocks(found, plan, daemon))
        except BaseException:
            sender.kill()
            sender.communicate()
            raise
        sender.terminate()
        sent = result(sender)
        until(lambda: daemon.group().triggers.committed == filled + sent.triggers, "all triggers are there", START_S)
        asyncio.run(_see_all(found, daemon.schema, filled + sent.triggers))
    found.server.drop(daemon.schema)
    return list(_with_sender(seen, sent))


def _fill(daemon: DaemonProcess, plan: Plan) -> int:
    """Send old hours, the oldest first; how many triggers that are."""
    count = plan.pairs * plan.down
    for number in range(count):
        # Each in the middle of its hour.
        into_hour_s = time.time_ns() % HOUR_NS / 1e9
        ago_s = (count - number + NEWER) * 3600 + into_hour_s - 1800
        first = number * plan.block_triggers + 1
        send(daemon.port, seconds=plan.block_triggers / AT_ONCE, rate=AT_ONCE, ago_s=ago_s, first=first)
    print_line(f"  {count} old hours of {plan.block_triggers:,} triggers each")
    return count * plan.block_triggers


async def _blocks(found: TieredServer, plan: Plan, daemon: DaemonProcess) -> list[_Seen]:
    store = hourly_store(found.server, daemon.schema, Layout.ROWS)
    looks = _Looks()
    try:
        partitions = await periods_of(store)
        old = [each for each in partitions if each.end_ns <= time.time_ns() - HOUR_NS]
        mover = _Mover(store, list(old), looks)
        counting = asyncio.create_task(_count(found.server.dsn, daemon.schema, old, plan, looks))
        try:
            return await _by_turns(plan, daemon, mover, looks)
        finally:
            counting.cancel()
            with suppress(asyncio.CancelledError):
                await counting
    finally:
        await store.close()


async def _by_turns(plan: Plan, daemon: DaemonProcess, mover: _Mover, looks: _Looks) -> list[_Seen]:
    found: list[_Seen] = []
    at_least_s = LEAD_IN_S
    for number in range(2 * plan.pairs + 1):
        has_moves = number % 2 == 1
        begin("tiers", f"beside, block {number + 1} of {2 * plan.pairs + 1}, {'with' if has_moves else 'no'} moves")
        begun, counted, wrong = time.monotonic(), looks.counted, looks.wrong
        moved = await mover.moves(plan.down) if has_moves else (0, 0, 0)
        await asyncio.sleep(max(0.0, begun + at_least_s - time.monotonic()))
        ended = time.monotonic()
        status = await asyncio.to_thread(daemon.status)
        each = _Seen(
            begun=begun,
            ended=ended,
            down=moved[0],
            up=moved[1],
            tries=moved[2],
            readers_p99_ms={name: reader.latency_ms.p99 for name, reader in status.readers.items()},
            counted=looks.counted - counted,
            wrong=looks.wrong - wrong,
        )
        # What follows is as long.
        at_least_s = max(LEAD_IN_S, ended - begun) if has_moves else at_least_s
        found.append(each)
        print_line(f"  block {number + 1}: {ended - begun:.0f} s, {moved[0]} down, {moved[1]} up in {moved[2]} tries")
    return found


async def _count(dsn: str, schema: str, old: list[Partition], plan: Plan, looks: _Looks) -> None:
    """Count the readings of the period that is moved, or of the next one, again and again."""
    wanted = plan.block_triggers * INSTRUMENTS
    connection = await asyncpg.connect(dsn)
    try:
        for following in itertools.cycle(old):
            each = looks.moving or following
            text = f"SELECT count(*) FROM {schema}.bpm WHERE time_ns >= $1::int8 AND time_ns < $2::int8"
            looks.wrong += await connection.fetchval(text, each.start_ns, each.end_ns) != wanted
            looks.counted += 1
            await asyncio.sleep(COUNT_EVERY_S)
    finally:
        connection.terminate()


async def _see_all(found: TieredServer, schema: str, triggers: int) -> None:
    store = hourly_store(found.server, schema, Layout.ROWS)
    try:
        totals = await store.ask(Totals(group=GROUP, within_s=600.0))
    finally:
        await store.close()
    assert totals.dtype == TOTALS
    if len(totals) != 1:
        raise CountsWrong(f"the triggers are of {len(totals)} runs: readers did not ask for the old hours")
    stored, ledger = int(totals["stored"].sum()), int(totals["arrived"].sum())
    if not stored == ledger == triggers * INSTRUMENTS:
        raise CountsWrong(
            f"{triggers * INSTRUMENTS:,} readings were sent; the table has {stored:,}, the ledger {ledger:,}"
        )


def _with_sender(seen: list[_Seen], sent: Sent) -> Iterator[Block]:
    latencies = 1e3 * acknowledged_after(sent.sent, sent.acks, INSTRUMENTS)
    times, triggers = sent.commits()
    for number, each in enumerate(seen):
        inside = (sent.sent >= each.begun) & (sent.sent < each.ended)
        committed = triggers[(times >= each.begun) & (times < each.ended)].sum()
        yield Block(
            number=number,
            seconds=each.ended - each.begun,
            down=each.down,
            up=each.up,
            tries=each.tries,
            rate=float(committed) / (each.ended - each.begun),
            commit_p99_ms=percentiles(np.asarray(latencies[inside])).p99,
            readers_p99_ms=each.readers_p99_ms,
            counted=each.counted,
            wrong=each.wrong,
        )


@contextmanager
def _reading(daemon: DaemonProcess) -> Iterator[None]:
    """Run the reader workloads; they are gone when it is left."""
    for workload in READERS:
        daemon.order("/api/v1/readers", {**workload, "deadline_s": 10.0})
    running: Callable[[], bool] = lambda: all(each.state == "running" for each in daemon.status().readers.values())  # noqa: E731
    until(running, "readers run", START_S)
    yield
    for workload in READERS:
        daemon.drop(f"/api/v1/readers/{workload['name']}")
    until(lambda: not daemon.status().readers, "the readers are gone", START_S)

"""The drills: what happens to a daemon under load, to its database, or to what it receives."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daemon.tools.drill.load import HOST
from daemon.tools.drill.machine import GROUP, ClockStep, DrillFailed
from daemon.tools.drill.system import SETTLED_S, DrillSystem
from schemas.wire import Ack, Greeting

KILLS = 3
TIMEOUT_MS = 500.0
IMPATIENT = {"database": {"command_timeout_s": 2.0}}
"""With this a database that hangs is given up during the drill."""
STEP_NS = 3_600_000_000_000
HOSTILE = 8
"""Connections that send garbage at once."""


@dataclass(frozen=True, kw_only=True)
class Drill:
    """One kind of failure.

    name: for `--only`. title: for the table. act: causes it, for `seconds`, and ends it again.
    failures: how many recoveries it measures: after each failure of daemon or database one.
    needs_server: whether it stops or kills the database server. disk: whether it fills the disk of the state folder.
    settings: of the daemon's configuration, by section and key.
    machine: fields of the `Machine` that differ, from the seconds and the rate.
    """

    name: str
    title: str
    act: Callable[[DrillSystem, float], Awaitable[None]]
    failures: int = 0
    needs_server: bool = False
    disk: bool = False
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    machine: Callable[[float, float], Mapping[str, Any]] = lambda _seconds, _rate: {}


async def _kill_daemon(system: DrillSystem, seconds: float) -> None:
    for _ in range(KILLS):
        await system.under_load(0.1, seconds / KILLS)
        await system.kill_daemon()


async def _kill_server(system: DrillSystem, seconds: float) -> None:
    for _ in range(KILLS):
        await system.under_load(0.1, seconds / KILLS)
        await system.kill_server()


async def _kill_both(system: DrillSystem, seconds: float) -> None:
    await system.under_load(0.1, seconds / 2)
    await asyncio.gather(asyncio.to_thread(system.server.kill), system.daemon.kill())
    await asyncio.to_thread(system.server.start)
    await system.daemon.start()
    await system.recover()
    await system.under_load(0.1, seconds / 2)


async def _outage(system: DrillSystem, seconds: float) -> None:
    await system.under_load(0.5)
    await asyncio.to_thread(system.server.stop)
    await system.under_load(seconds)
    await asyncio.to_thread(system.server.start)
    await system.recover()


async def _hang(system: DrillSystem, seconds: float) -> None:
    await system.under_load(0.5)
    system.server.freeze()
    try:
        await system.under_load(seconds)
    finally:
        system.server.thaw()
    await system.recover()


async def _full_disk(system: DrillSystem, seconds: float) -> None:
    await system.under_load(0.5)
    await asyncio.to_thread(system.server.stop)
    try:
        async with asyncio.timeout(SETTLED_S):
            while not (await system.daemon.group()).backpressure:
                await system.under_load(0.1)
    except TimeoutError:
        raise DrillFailed("senders were not held back: the disk did not become full") from None
    await system.under_load(seconds / 2)
    await asyncio.to_thread(system.server.start)
    await system.recover()


async def _wait(system: DrillSystem, seconds: float) -> None:
    await system.under_load(seconds)


async def _garbage(system: DrillSystem, seconds: float) -> None:
    hostile = [asyncio.create_task(_throw_garbage(system, number)) for number in range(HOSTILE)]
    try:
        await system.under_load(seconds)
    finally:
        for task in hostile:
            task.cancel()
        await asyncio.gather(*hostile, return_exceptions=True)


async def _restart_numbers(system: DrillSystem, seconds: float) -> None:
    for _ in range(KILLS):
        await system.under_load(0.1, seconds / KILLS)
        system.load.restart_numbers()
        # Before or after the first readings of the new run have come.
        await system.under_load(0.0, 0.1)
        await system.kill_daemon()


async def _throw_garbage(system: DrillSystem, number: int) -> None:
    """Connect again and again; every second sender greets correctly before it sends random bytes."""
    noise = np.random.default_rng(number)
    greeting = Greeting(group=GROUP, sender=f"hostile-{number}", ack=Ack.NONE, instrument=None).line()
    while True:
        _, writer = await asyncio.open_connection(HOST, system.port)
        with contextlib.suppress(ConnectionError):
            writer.write(greeting if number % 2 else b"")
            writer.write(noise.bytes(2**16))
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


DRILLS = (
    Drill(name="daemon-killed", title=f"kill -9 of the daemon, {KILLS} times", act=_kill_daemon, failures=KILLS),
    Drill(
        name="database-killed",
        title=f"kill -9 of the database, {KILLS} times",
        act=_kill_server,
        failures=KILLS,
        needs_server=True,
    ),
    Drill(name="both-killed", title="kill -9 of both at once", act=_kill_both, failures=1, needs_server=True),
    Drill(name="outage", title="database stopped", act=_outage, failures=1, needs_server=True),
    Drill(name="hang", title="database hangs (SIGSTOP)", act=_hang, failures=1, needs_server=True, settings=IMPATIENT),
    Drill(
        name="full-disk",
        title="disk full, database stopped",
        act=_full_disk,
        failures=1,
        needs_server=True,
        disk=True,
    ),
    Drill(
        name="slow-instrument",
        title="one instrument too slow",
        act=_wait,
        settings={"assembly": {"timeout_ms": TIMEOUT_MS}},
        machine=lambda _seconds, _rate: {"slow": 0, "slow_s": 2 * TIMEOUT_MS / 1e3},
    ),
    Drill(
        name="clock-step",
        title=f"clock put 1 h forward, {KILLS} kills",
        act=_kill_daemon,
        failures=KILLS,
        machine=lambda seconds, rate: {
            "clock_step": ClockStep(instrument=0, event=max(1, int(seconds * rate / 2)), by_ns=STEP_NS)
        },
    ),
    Drill(
        name="restart",
        title=f"numbers restart, {KILLS} times, {KILLS} kills",
        act=_restart_numbers,
        failures=KILLS,
    ),
    Drill(name="garbage", title=f"{HOSTILE} senders of garbage", act=_garbage),
)
"""In the order in which they are carried out."""

"""kill -9 at random moments, again and again, under load: of daemons and of servers, which then begin again.

The load has what a machine has: incomplete triggers, restarts of the numbers, an instrument whose clock is an hour
ahead, and senders that ask for `received` and for `committed`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path

from backends.throwaway.base import ThrowawayServer
from daemon.tools.drill.machine import READY_S, ClockStep, DaemonProcess, DrillFailed, Machine
from daemon.tools.drill.system import Count, DrillSystem, Target, running_system
from schemas.batch import Layout
from schemas.checking.dsn import Backend, backend_of
from tests.support.processes import Running

INSTRUMENTS = 12
RATES = {Backend.POSTGRESQL: 50.0, Backend.MYSQL: 50.0, Backend.MONGODB: 20.0}
"""Events a second. FerretDB, on a slow machine that others use too, hardly keeps up with 50."""
ABSENT = 0.05
HOUR_NS = 3_600_000_000_000
SETTINGS = {"assembly": {"timeout_ms": 100.0}}
"""Incomplete triggers close this soon, so that what is sent again after a kill is late for some, and not for others."""


class Victim(StrEnum):
    """What is killed. Its layout: one of the two for each, for want of time."""

    DAEMON = "daemon"
    SERVER = "server"

    @property
    def layout(self) -> Layout:
        """How the killed system stores."""
        return Layout.ROWS if self is Victim.DAEMON else Layout.ARRAYS


class ForkedDaemon(DaemonProcess):
    """The daemon of a system, forked: an interpreter that imports all of it takes longer than what is proven here."""

    def __init__(self, file: Path, folder: Path, *, api_port: int) -> None:
        super().__init__(file, folder, api_port=api_port)
        self._run: Running | None = None

    async def start(self) -> None:
        """Start it, and wait until it takes readings."""
        self.starts += 1
        self._run = await asyncio.to_thread(Running, "run", str(self._file))
        await asyncio.to_thread(self._run.until_said, "taking readings at ", READY_S)

    @property
    def said(self) -> str:
        """The log of the process that was started last."""
        return self._run.said if self._run is not None else ""

    def check(self) -> None:
        """Check that it runs; raise DrillFailed where it has ended."""
        if self._run is not None and self._run.process.poll() is not None:
            raise DrillFailed(f"the daemon ended with exit code {self._run.process.returncode}")

    async def kill(self) -> None:
        """Kill it with SIGKILL, and wait until it is gone."""
        await self.close()

    async def stop(self) -> None:
        """Ask it to end, which commits what it has."""
        assert self._run is not None
        assert await asyncio.to_thread(self._run.end) == 0, self._run.said

    async def close(self) -> None:
        """Kill it if it still runs, and keep what it has said."""
        if self._run is not None:
            await asyncio.to_thread(self._run.close)
            (self._folder / f"daemon-{self.starts}.log").write_text(self._run.said)


def machine(dsn: str) -> Machine:
    """The machine that sends to a daemon at this database: the clock of one instrument is an hour ahead."""
    ahead = ClockStep(instrument=1, event=1, by_ns=HOUR_NS)
    rate = RATES[backend_of(dsn)]
    return Machine(instruments=INSTRUMENTS, rate=rate, start_ns=time.time_ns(), absent=ABSENT, clock_step=ahead)


async def kill_again_and_again(
    server: ThrowawayServer,
    victim: Victim,
    kills: int,
    folder: Path,
    seed: int,
    said: Callable[[int], None] = lambda _number: None,
) -> tuple[DrillSystem, Count]:
    """Kill something under load and start it again, often; wait until all is acknowledged, and count what is there.

    Args:
        server: it runs.
        victim: what is killed.
        kills: how often.
        folder: for the configuration and the daemon's state.
        seed: of the moments.
        said: called with the number of each kill, from 1 on, when what was killed runs again.
    """
    dsn = await asyncio.to_thread(server.start)
    target = Target(settings={"dsn": dsn, "layout": victim.layout.value}, server=server)
    schema = f"crashes_{victim}_{seed}"
    async with running_system(
        target, machine(dsn), folder, schema=schema, settings=SETTINGS, seed=seed, daemon=ForkedDaemon
    ) as system:
        kill = KILLS[victim]
        for number in range(kills):
            # Every other time something was committed before, or a slow server would have all of it at the end.
            if number % 2:
                await system.recover()
            if number % 4 > 1:
                system.load.restart_numbers()
            # Sometimes before the senders are back, sometimes in the midst of what they send again, or long after.
            await system.under_load(0.0, 0.4)
            await kill(system)
            said(number + 1)
        await system.recover()
        return system, await system.finish()


async def _kill_daemon(system: DrillSystem) -> None:
    await system.daemon.kill()
    await system.daemon.start()


async def _kill_server(system: DrillSystem) -> None:
    await asyncio.to_thread(system.server.kill)
    await asyncio.to_thread(system.server.start)


KILLS: dict[Victim, Callable[[DrillSystem], Awaitable[None]]] = {
    Victim.DAEMON: _kill_daemon,
    Victim.SERVER: _kill_server,
}

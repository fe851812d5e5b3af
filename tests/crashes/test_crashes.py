"""kill -9 at random moments, again and again, under load from real senders that ask for `spooled` and for `committed`.

Every acknowledged reading is in the database once, none twice, and the ledger tells the same. The seed of the moments
is printed; TRIGGERLOG_CRASH_SEED repeats them, as far as a machine repeats anything. `make test-crashes` kills 20
times, the whole suite a few times less, for want of time.
"""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from backends.kinds import KINDS
from backends.throwaway import ServerNotInstalled
from backends.throwaway.base import ThrowawayServer
from backends.throwaway.mongodb import ThrowawayMongodb, server_program
from daemon.tools.drill import system as system_module
from daemon.tools.drill.machine import Machine
from daemon.tools.drill.process import READY_S, DaemonProcess, until
from daemon.tools.drill.system import DrillSystem, Target, running_system
from schemas.batch import Layout
from schemas.checking.dsn import Backend
from tests.support.kills import KILLS, THOROUGH
from tests.support.processes import Running

INSTRUMENTS = 12
RATE = 50.0
"""Triggers a second."""


class ForkedDaemon(DaemonProcess):
    """The daemon of a system, forked: an interpreter that imports all of it takes longer than what is proven here."""

    def __init__(self, file: Path, folder: Path, *, api_port: int) -> None:
        super().__init__(file, folder, api_port=api_port)
        self._run: Running | None = None

    async def start(self) -> None:
        self.starts += 1
        self._run = await asyncio.to_thread(Running, "run", str(self._file))
        await asyncio.to_thread(self._run.until_said, "taking readings at ", READY_S)

    async def kill(self) -> None:
        assert self._run is not None
        await asyncio.to_thread(self._run.close)

    async def stop(self) -> None:
        assert self._run is not None
        assert await asyncio.to_thread(self._run.end) == 0, self._run.said

    async def close(self) -> None:
        if self._run is not None:
            await asyncio.to_thread(self._run.close)


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_module, "DaemonProcess", ForkedDaemon)


@pytest.fixture
def seed() -> int:
    seed = int(os.environ.get("TRIGGERLOG_CRASH_SEED") or random.randrange(2**32))
    print(f"TRIGGERLOG_CRASH_SEED={seed}")  # noqa: T201 - for whoever reads of a failure
    return seed


@pytest.fixture(params=list(Backend), ids=str)
async def server(request: pytest.FixtureRequest, state_dir: Path) -> AsyncIterator[ThrowawayServer]:
    try:
        server = KINDS[request.param].throwaway_server(state_dir)
        await asyncio.to_thread(server.start)
    except ServerNotInstalled as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    try:
        yield server
    finally:
        await asyncio.to_thread(server.stop)


async def see_all_is_there(system: DrillSystem) -> None:
    count = await system.finish()
    load = system.load
    assert load.sent == load.acknowledged == count.found > KILLS * INSTRUMENTS
    assert load.refused == 0
    assert count.faults == {}


async def kill_again_and_again(
    server: ThrowawayServer, layout: Layout, folder: Path, seed: int, kill: Callable[[DrillSystem], Awaitable[None]]
) -> int:
    """Kill something under load and start it again, often; see that all is there, return how often the daemon began."""
    settings = {"dsn": await asyncio.to_thread(server.start), "layout": layout.value}
    target = Target(settings=settings, server=server)
    machine = Machine(instruments=INSTRUMENTS, rate=RATE, start_ns=time.time_ns())
    async with running_system(target, machine, folder, schema="crashes", seed=seed) as system:
        for number in range(KILLS):
            # Every other time something was committed before, or a slow server would have all of it at the end.
            if number % 2:
                await system.recover()
            # Sometimes before the senders are back, sometimes in the midst of what they send again, or long after.
            await system.under_load(0.0, 0.4)
            await kill(system)
        await system.recover()
        starts = system.daemon.starts
        await see_all_is_there(system)
    return starts


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
@pytest.mark.timeout(900)
async def test_the_daemon_is_killed_again_and_again(server: ThrowawayServer, tmp_path: Path, seed: int) -> None:
    if isinstance(server, ThrowawayMongodb) and not server_program().name.startswith("mongod"):
        pytest.skip("FerretDB 1 takes minutes to find what is there of a batch that comes again: this needs a mongod")

    async def kill(system: DrillSystem) -> None:
        await system.daemon.kill()
        await system.daemon.start()

    assert await kill_again_and_again(server, Layout.ROWS, tmp_path, seed, kill) == KILLS + 1


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
@pytest.mark.timeout(900)
async def test_the_server_is_killed_again_and_again(server: ThrowawayServer, tmp_path: Path, seed: int) -> None:
    async def kill(_: DrillSystem) -> None:
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)

    assert await kill_again_and_again(server, Layout.ARRAYS, tmp_path, seed, kill) == 1


# That of PostgreSQL has a test in test_service.
@pytest.mark.slow
@pytest.mark.parametrize(
    "server", list(Backend) if THOROUGH else [Backend.MYSQL, Backend.MONGODB], ids=str, indirect=True
)
async def test_a_daemon_may_start_before_its_database(server: ThrowawayServer, tmp_path: Path) -> None:
    target = Target(settings={"dsn": await asyncio.to_thread(server.start)}, server=server)
    machine = Machine(instruments=INSTRUMENTS, rate=RATE, start_ns=time.time_ns())
    await asyncio.to_thread(server.stop)

    async def start_server() -> None:
        log = tmp_path / "daemon-1.log"
        what = "the database is away, no readings are taken yet"
        await until(lambda: log.exists() and what in log.read_text(), what, 60)
        await asyncio.to_thread(server.start)

    starting = asyncio.create_task(start_server())
    async with running_system(target, machine, tmp_path, schema="crashes") as system:
        await starting
        await system.until(lambda: system.load.acknowledged > 2 * KILLS * INSTRUMENTS, "readings are acknowledged")
        await see_all_is_there(system)

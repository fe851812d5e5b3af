"""kill -9 at random moments, again and again, under load (`tests.support.crashing`).

Every acknowledged reading is in the database once, none twice, and the ledger tells the same. The seed of the moments
is printed; TRIGGERLOG_CRASH_SEED repeats them, as far as a machine repeats anything. `make test-crashes` kills as often
as it is told to.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backends.kinds import KINDS
from backends.throwaway import ServerNotInstalled
from backends.throwaway.base import ThrowawayServer
from daemon.tools.drill.machine import READY_S, until
from daemon.tools.drill.system import Count, DrillSystem, Target, running_system
from schemas.checking.dsn import Backend
from tests.support.crashing import INSTRUMENTS, SETTINGS, Victim, kill_again_and_again, machine

KILLS = 8


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


def see_all_is_there(system: DrillSystem, count: Count) -> None:
    load = system.load
    assert load.sent == load.acknowledged == count.found > KILLS * INSTRUMENTS
    assert load.refused == 0
    assert count.faults == {}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("victim", list(Victim), ids=str)
async def test_it_is_killed_again_and_again(server: ThrowawayServer, victim: Victim, tmp_path: Path, seed: int) -> None:
    system, count = await kill_again_and_again(server, victim, KILLS, tmp_path, seed)
    assert system.daemon.starts == (KILLS + 1 if victim is Victim.DAEMON else 1)
    assert len(system.machine.runs.firsts) == 1 + KILLS // 2
    see_all_is_there(system, count)


# That of PostgreSQL has a test in test_service.
@pytest.mark.slow
@pytest.mark.parametrize("server", [Backend.MYSQL, Backend.MONGODB], ids=str, indirect=True)
async def test_a_daemon_may_start_before_its_database(server: ThrowawayServer, tmp_path: Path) -> None:
    dsn = await asyncio.to_thread(server.start)
    target = Target(settings={"dsn": dsn}, server=server)
    await asyncio.to_thread(server.stop)

    async def start_server() -> None:
        log = tmp_path / "daemon-1.log"
        what = "the database is away, readings are kept in the journal"
        await until(lambda: log.exists() and what in log.read_text(), what, READY_S)
        await asyncio.to_thread(server.start)

    starting = asyncio.create_task(start_server())
    async with running_system(target, machine(dsn), tmp_path, schema="crashes", settings=SETTINGS) as system:
        await starting
        await system.until(lambda: system.load.acknowledged > KILLS * INSTRUMENTS, "readings are acknowledged")
        see_all_is_there(system, await system.finish())

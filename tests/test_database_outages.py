"""MariaDB and MongoDB killed under a running daemon: readings wait, it is told, and nothing is lost or doubled.

The same for PostgreSQL is in test_service.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from backends import open_store
from backends.throwaway import ServerNotInstalled
from backends.throwaway.mariadb import ThrowawayMariadb
from backends.throwaway.mongodb import ThrowawayMongodb
from daemon.sender import Sender
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.queries import LedgerTail, WindowReadings
from schemas.readings import Array, Channel, InstrumentGroup
from tests.processes import running, until
from tests.test_service import Daemon, configured, make

GROUP = InstrumentGroup(
    name="bpm",
    instruments=tuple(f"bpm_{k:03d}" for k in range(12)),
    channels=(Channel(name="top_in", unit="", dtype="float64"), Channel(name="gain", unit="", dtype="int16")),
)

Server = ThrowawayMariadb | ThrowawayMongodb


@pytest.fixture(params=[ThrowawayMariadb, ThrowawayMongodb], ids=["mariadb", "mongodb"])
async def server(request: pytest.FixtureRequest, state_dir: Path) -> AsyncIterator[Server]:
    """A server of the test's own, to be killed."""
    try:
        server = request.param(state_dir)
        await asyncio.to_thread(server.start)
    except ServerNotInstalled as error:
        pytest.skip(str(error))
    try:
        yield server
    finally:
        await asyncio.to_thread(server.stop)


async def stored(dsn: str, layout: Layout) -> tuple[Array, Array]:
    """All readings and the ledger, once the daemon has let go of them."""
    store = open_store(
        DatabaseConfig(dsn=dsn),
        logger="triggerlog",
        groups={"bpm": GROUP},
        layouts={"bpm": layout},
        state_dir=Path("/nonexistent"),
    )
    await store.open()
    try:
        readings = await store.ask(WindowReadings(group=GROUP, start_ns=-(2**63) + 1, end_ns=2**63 - 1))
        return readings, await store.ask(LedgerTail(group=GROUP, most=10_000))
    finally:
        await store.close()


@pytest.mark.slow
@pytest.mark.parametrize("layout", list(Layout))
async def test_a_database_killed_under_load_loses_nothing(tmp_path: Path, server: Server, layout: Layout) -> None:
    dsn = await asyncio.to_thread(server.start)
    with configured(tmp_path, dsn, layout) as file, running("run", str(file)) as run:
        daemon = await asyncio.to_thread(Daemon, run)
        async with await Sender.connect("127.0.0.1", daemon.port, "bpm") as sender:
            for trigger in range(1, 301):
                await sender.send(make(sender, trigger))
                await asyncio.sleep(0.002)
                if trigger == 150:
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(until, lambda: daemon.status()["state"] == "store_away", "away")
                    assert daemon.ready() == 503
                    starting = asyncio.create_task(asyncio.to_thread(server.start))
            await starting
        assert sender.acknowledged == 3600
        await asyncio.to_thread(run.until_said, r"the database is back after \d")
        assert await asyncio.to_thread(run.end) == 0, run.said
        assert run.said.count("the database is away, readings wait: ") == 1
    readings, ledger = await stored(dsn, layout)
    triggers = np.repeat(np.arange(1, 301), 12)
    np.testing.assert_array_equal(readings["trigger"], triggers)
    np.testing.assert_array_equal(readings["instrument"], np.tile(np.arange(12), 300))
    np.testing.assert_array_equal(readings["top_in"], triggers + readings["instrument"] / 1000)
    np.testing.assert_array_equal(ledger["trigger"], np.arange(1, 301))
    assert (ledger["arrived"] == 12).all()


@pytest.mark.slow
async def test_a_daemon_may_start_before_its_database(tmp_path: Path, server: Server) -> None:
    dsn = await asyncio.to_thread(server.start)
    await asyncio.to_thread(server.stop)
    with configured(tmp_path, dsn) as file, running("run", str(file)) as run:
        await asyncio.to_thread(run.until_said, "the database is away, no readings are taken yet")
        await asyncio.to_thread(server.start)
        daemon = await asyncio.to_thread(Daemon, run)
        assert daemon.ready() == 200
        assert await asyncio.to_thread(run.end) == 0

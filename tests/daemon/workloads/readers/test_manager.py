"""The manager of reader workloads: real processes that read from a real PostgreSQL."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from daemon.core.configuration import load_config
from daemon.core.configuration.database import store_of
from daemon.core.monitoring.events import Events
from daemon.workloads.frame.runner import WorkloadRefused
from daemon.workloads.readers.manager import Readers
from schemas.config import Workload
from tests.support.batches import batch_of, readings_of
from tests.support.pipelines import eventually
from tests.support.processes import free_port
from tests.support.relays import hand_on

pytestmark = pytest.mark.slow

GROUP = '[[groups]]\nname = "bpm"\ncount = 4\nchannels = [{ name = "x" }]\n'


def workload(name: str = "w", **more: object) -> Workload:
    return Workload.model_validate({"name": name, "kind": "random", "clients": 3, "period_s": 0.02, **more})


@asynccontextmanager
async def readers(folder: Path, dsn: str, schema: str, reading: str | None = None) -> AsyncIterator[Readers]:
    """A manager, with 20 triggers in the database."""
    file = folder / "beam.toml"
    own = f'[readers]\ndsn = "{reading}"\n' if reading else ""
    file.write_text(f'{GROUP}[database]\ndsn = "{dsn}"\nschema = "{schema}"\n{own}')
    loaded = load_config(file)
    store, group = store_of(loaded), loaded.config.groups[0].group()
    await store.open()
    times = time.time_ns() + np.arange(20) * 1_000_000
    await store.commit(batch_of(group, 1, readings_of(group, np.arange(20), times, np.random.default_rng(7))))
    await store.close()
    manager = Readers(loaded, Events(), pause_s=0.1)
    try:
        yield manager
    finally:
        await manager.end()


async def test_nobody_asks_who_is_not_admitted_and_what_was_measured_only_grows(
    tmp_path: Path, postgresql_dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with readers(tmp_path, postgresql_dsn, schema) as manager:
        await manager.start(workload(), admitted=0)
        await eventually(lambda: manager.statuses()["w"].state == "running", "ready", 60)
        manager["w"].measure()
        manager["w"].admit(2)
        await eventually(lambda: manager["w"].stretch_figures().totals.cycles >= 5, "answers", 60)
        status = manager.statuses()["w"]
        assert (status.admitted, status.clients, status.failed) == (2, 3, 0)
        figures = manager["w"].stretch_figures()
        assert figures.totals.rows == 80 * figures.totals.cycles
        assert figures.latency.get_total_count() >= figures.totals.cycles
        manager["w"].admit(0)
        before = await steady(manager)
        manager["w"].admit(99)
        assert manager.statuses()["w"].admitted == 3
        await eventually(lambda: manager["w"].totals.cycles > before, "answers again", 60)
        process = manager["w"]._process
        process._child._process.kill()
        await eventually(lambda: manager.statuses()["w"].state == "failed", "told", 60)
        kept = manager["w"].totals.cycles
        assert kept > before
        await eventually(lambda: manager["w"].totals.cycles > kept, "answers of another process", 60)
        with monkeypatch.context() as patched:
            patched.setattr(process, "_silent_s", 3.0)
            reported_s = manager["w"]._reported_s
            await eventually(lambda: manager["w"]._reported_s > reported_s, "the next report", 60)
            process._child._process.send_signal(signal.SIGSTOP)
            await eventually(lambda: manager.statuses()["w"].state == "failed", "a process that hangs", 60)
            assert manager.statuses()["w"].problem == "the process has sent nothing for 3 s"
        with pytest.raises(WorkloadRefused, match="name: workload 'w' runs already"):
            await manager.start(workload())
        assert (await manager.stop("w")).cycles > kept
        with pytest.raises(KeyError):
            await manager.stop("w")


async def steady(manager: Readers) -> int:
    """Wait until nobody has asked for a second, in which three clients would have done so 150 times."""
    cycles, since_s = -1, 0.0
    async with asyncio.timeout(60):
        while cycles != manager["w"].totals.cycles or time.monotonic() - since_s < 1:
            if cycles != manager["w"].totals.cycles:
                cycles, since_s = manager["w"].totals.cycles, time.monotonic()
            await asyncio.sleep(0.05)
    return cycles


@pytest.mark.parametrize("server", ["mariadb", "postgresql"])
async def test_all_that_a_process_has_read_is_told_once_where_the_server_does_not_count_it(
    request: pytest.FixtureRequest, tmp_path: Path, schema: str, server: str
) -> None:
    dsn = request.getfixturevalue(f"{server}_dsn")
    async with readers(tmp_path, dsn, schema) as manager:
        await manager.start(workload())
        await eventually(lambda: manager["w"].totals.cycles >= 20, "answers", 120)
        manager["w"].admit(0)
        await steady(manager)
        read, totals = manager.read.take(), manager["w"].totals
        assert (totals.failed, manager["w"].asking, totals.rows > 0) == (0, 0, True)
        assert sum(each.rows for each in read) == (totals.rows if server == "mariadb" else 0)
        assert {each.group for each in read} == ({"bpm"} if server == "mariadb" else set())
        assert manager.read.take() == ()


async def test_a_database_that_is_away_is_told_of_and_comes_back_by_itself(
    tmp_path: Path, postgresql_dsn: str, schema: str
) -> None:
    port = free_port()
    replica = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    async with readers(tmp_path, postgresql_dsn, schema, replica) as manager:
        await manager.start(workload(clients=1))
        await eventually(lambda: manager.statuses()["w"].failed >= 2, "failures", 60)
        status = manager.statuses()["w"]
        assert (status.state, status.cycles, status.efficiency) == ("running", 0, 0.0)
        assert status.problem is not None
        assert f"postgresql://postgres@127.0.0.1:{port}/postgres is not reachable" in status.problem
        async with link(port, postgresql_dsn):
            await eventually(lambda: manager.statuses()["w"].cycles >= 3, "answers", 60)
            await manager.stop("w")


@asynccontextmanager
async def link(port: int, dsn: str) -> AsyncIterator[None]:
    """A way over TCP to a server that listens on a Unix socket."""
    socket = f"{parse_qs(urlsplit(dsn).query)['host'][0]}/.s.PGSQL.5432"

    serving: set[asyncio.Task[None] | None] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        await hand_on((reader, writer), await asyncio.open_unix_connection(socket))

    async with await asyncio.start_server(connected, "127.0.0.1", port):
        yield
    # A server that is closed leaves the connections that it took.
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving, return_exceptions=True)

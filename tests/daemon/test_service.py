"""The service as a whole, in a process of its own: outages, crashes, the end, and wrong starts."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
import httpx
import numpy as np
import pytest

from backends.postgresql.server.embedded import EmbeddedPostgresql
from daemon.client.sender import Sender
from daemon.core.monitoring.event_log import read_events
from daemon.data_path import DataPath
from schemas.readings import Array
from tests.support.processes import Running, free_port, running, triggerlog, until

CONFIGURATION = """
state_dir = "{folder}/state"

[[groups]]
name = "bpm"
count = 12
channels = [{{ name = "top_in" }}, {{ name = "gain", dtype = "int16" }}]

[[sources]]
kind = "tcp"
port = {port}

[database]
dsn = "{dsn}"
schema = "{schema}"
layout = "{layout}"

[assembly]
timeout_ms = 200.0

[committer]
max_batch_mib = 0.25
max_waiting_mib = 4.0

[journal]
max_mib = 8.0
segment_mib = 1.0

[api]
port = 0
"""


class Daemon:
    """`triggerlog run`, once it takes readings."""

    def __init__(self, run: Running) -> None:
        self.run = run
        found = run.until_said(r"taking readings at \S+:(\d+); API at (\S+)")
        self.port, self.api = int(found[1]), found[2]

    def status(self) -> dict:
        return (
            httpx.get(f"{self.api}/api/v1/status", verify=False, trust_env=False, timeout=60).raise_for_status().json()
        )

    def ready(self) -> int:
        return httpx.get(f"{self.api}/ready", verify=False, trust_env=False, timeout=60).status_code

    def group(self) -> dict:
        return self.status()["groups"]["bpm"]


@contextmanager
def configured(
    folder: Path, dsn: str, layout: str = "rows", port: int = 0, schema: str = "triggerlog"
) -> Iterator[Path]:
    file = folder / "beam.toml"
    file.write_text(CONFIGURATION.format(folder=folder, dsn=dsn, schema=schema, layout=layout, port=port))
    yield file


@asynccontextmanager
async def own_server(folder: Path) -> AsyncIterator[tuple[EmbeddedPostgresql, str]]:
    """A PostgreSQL that the test may kill and stop; see `conftest` for why not every folder will do."""
    server = EmbeddedPostgresql(folder)
    try:
        yield server, await server.start()
    finally:
        await server.stop()


def make(sender: Sender, *triggers: int) -> Array:
    block = np.zeros((len(triggers), sender.instruments), sender.record)
    block["trigger"] = np.array(triggers)[:, None]
    block["instrument"] = np.arange(sender.instruments)
    block["time_ns"] = 1_700_000_000_000_000_000 + block["trigger"] * 1_000_000
    block["top_in"] = block["trigger"] + block["instrument"] / 1000
    return block.reshape(-1)


async def stored(dsn: str, schema: str = "triggerlog") -> list[tuple[int, int, float]]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(f"SELECT trigger_id, instrument, top_in FROM {schema}.bpm_readings ORDER BY 1, 2")
        return [tuple(row) for row in rows]
    finally:
        await connection.close()


def expected(triggers: int) -> list[tuple[int, int, float]]:
    return [(t, i, pytest.approx(t + i / 1000)) for t in range(1, triggers + 1) for i in range(12)]


@pytest.mark.slow
async def test_acknowledged_readings_survive_kill_9_of_the_daemon(
    tmp_path: Path, postgresql_dsn: str, schema: str
) -> None:
    layout = "arrays"  # tests/crashes/test_crashes.py does it with the other one, and more of it
    random = np.random.default_rng(7)
    schema = f"service_{schema}"
    with configured(tmp_path, postgresql_dsn, layout, free_port(), schema) as file:
        run = Running("run", str(file))
        try:
            daemon = await asyncio.to_thread(Daemon, run)
            async with await Sender.connect("127.0.0.1", daemon.port, "bpm", reconnect=True) as sender:
                for trigger in range(1, 401):
                    await sender.send(make(sender, trigger))
                    await asyncio.sleep(0.002)
                    if trigger in (150, 300):
                        await asyncio.sleep(float(random.uniform(0, 0.01)))
                        run.process.kill()
                        run.close()
                        run = Running("run", str(file))
                        await asyncio.to_thread(Daemon, run)
            assert sender.acknowledged == 4800
            assert sender.reconnects == 2
            assert "the daemon before did not end by itself" in run.said
            assert run.end() == 0
            assert "asked to end by SIGTERM" in run.said
        finally:
            run.close()
    assert await stored(postgresql_dsn, schema) == expected(400)


@pytest.mark.slow
async def test_database_killed_under_load_loses_nothing(tmp_path: Path, state_dir: Path) -> None:
    async with own_server(state_dir) as (server, dsn):
        with configured(tmp_path, dsn) as file, running("run", str(file)) as run:
            daemon = await asyncio.to_thread(Daemon, run)
            async with await Sender.connect("127.0.0.1", daemon.port, "bpm") as sender:
                for trigger in range(1, 601):
                    await sender.send(make(sender, trigger))
                    await asyncio.sleep(0.002)
                    if trigger in (200, 400):
                        assert server.pid is not None
                        os.kill(server.pid, signal.SIGKILL)
                        await asyncio.to_thread(until, lambda: daemon.status()["state"] == "store_away", "away")
                        assert daemon.ready() == 503
                        await server.start()
                        await asyncio.to_thread(until, lambda: daemon.status()["state"] == "running", "back")
            assert sender.acknowledged == 7200
            assert daemon.status()["state"] == "running"
            assert run.end() == 0, run.said
            assert run.said.count("the database is away, readings wait: ") == 2
            assert len(re.findall(r"the database is back after \d", run.said)) == 2
        assert await stored(dsn) == expected(600)


async def _set_fsync(dsn: str, value: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f"ALTER SYSTEM SET fsync = {value}")
        await connection.execute("SELECT pg_reload_conf()")
        async with asyncio.timeout(60):
            while await connection.fetchval("SHOW fsync") != value:  # noqa: ASYNC110 - the server takes its time
                await asyncio.sleep(0.02)
    finally:
        await connection.close()


@pytest.mark.slow
async def test_a_server_that_keeps_less_than_is_asked_is_told_at_the_start_and_when_it_keeps_it(
    tmp_path: Path, state_dir: Path
) -> None:
    async with own_server(state_dir) as (_, dsn):
        await _set_fsync(dsn, "off")
        with configured(tmp_path, dsn) as file, running("run", str(file)) as run:
            daemon = await asyncio.to_thread(Daemon, run)
            assert (
                "WARNING" in run.until_said(r".*durability sync of group bpm is not kept: NOT durable: fsync is off")[0]
            )
            store = daemon.status()["store"]
            assert store["shortfall"]["sync"]["fix"] == "set fsync = on there"
            assert store["settings"]["fsync"] == "off"
            async with await Sender.connect("127.0.0.1", daemon.port, "bpm") as sender:
                await sender.send(make(sender, 1, 2))
            assert (daemon.group()["at_risk_ms"], daemon.group()["readings"]["at_risk"]) == (None, 24)
            await _set_fsync(dsn, "on")
            await asyncio.to_thread(run.until_said, r"durability sync of group bpm is kept: sync \(fsync on")
            assert (daemon.group()["at_risk_ms"], daemon.group()["readings"]["at_risk"]) == (0, 0)
            assert run.end() == 0


@pytest.mark.slow
async def test_a_database_that_hangs_makes_senders_wait_and_memory_stay(tmp_path: Path, state_dir: Path) -> None:
    triggers = 150_000
    async with own_server(state_dir) as (server, dsn):
        with configured(tmp_path, dsn) as file, running("run", str(file)) as run:
            daemon = await asyncio.to_thread(Daemon, run)
            async with await Sender.connect("127.0.0.1", daemon.port, "bpm") as sender:
                await sender.send(make(sender, 1))
                await sender.drain_acknowledged()
                stopped = _processes_of(server)
                for pid in stopped:
                    os.kill(pid, signal.SIGSTOP)
                try:
                    sending = asyncio.create_task(_send(sender, 2, triggers))
                    await asyncio.to_thread(until, lambda: daemon.group()["backpressure"], "backpressure")
                    full = daemon.group()
                    assert full["backlog_mib"] < 12  # the limit, and what one receive buffer holds more
                    assert 4 < full["journal_mib"] <= 8
                    assert full["readings"]["received"] < 12 * triggers
                finally:
                    for pid in stopped:
                        os.kill(pid, signal.SIGCONT)
                await sending
            assert sender.acknowledged == 12 * triggers
            readings = daemon.group()["readings"]
            assert readings["received"] == readings["committed"] + readings["duplicate"] == 12 * triggers
        assert len(await stored(dsn)) == 12 * triggers


async def test_a_database_that_hangs_is_away_within_seconds_and_since_it_was_asked(
    tmp_path: Path, state_dir: Path
) -> None:
    async with own_server(state_dir) as (server, dsn):
        with configured(tmp_path, dsn) as file, running("run", str(file)) as run:
            daemon = await asyncio.to_thread(Daemon, run)
            async with await Sender.connect("127.0.0.1", daemon.port, "bpm") as sender:
                await sender.send(make(sender, 1))
                await sender.drain_acknowledged()
                stopped = _processes_of(server)
                for pid in stopped:
                    os.kill(pid, signal.SIGSTOP)
                try:
                    await sender.send(make(sender, 2))
                    said = "the database is away, readings wait: it does not answer"
                    await asyncio.to_thread(run.until_said, said)
                finally:
                    for pid in stopped:
                        os.kill(pid, signal.SIGCONT)
                await asyncio.to_thread(run.until_said, r"the database is back after \d")
                await sender.drain_acknowledged()
        (away_s,) = re.findall(r"the database is back after ([\d.]+) s", run.said)
        assert float(away_s) >= 5


async def _send(sender: Sender, first: int, last: int) -> None:
    for start in range(first, last + 1, 100):
        await sender.send(make(sender, *range(start, min(start + 100, last + 1))))


def _processes_of(server: EmbeddedPostgresql) -> list[int]:
    import psutil

    postmaster = psutil.Process(server.pid)
    return [postmaster.pid, *(child.pid for child in postmaster.children(recursive=True))]


async def test_the_end_commits_what_was_received(tmp_path: Path, postgresql_dsn: str, schema: str) -> None:
    schema = f"service_{schema}"
    with configured(tmp_path, postgresql_dsn, schema=schema) as file, running("run", str(file)) as run:
        daemon = await asyncio.to_thread(Daemon, run)
        sender = await Sender.connect("127.0.0.1", daemon.port, "bpm")
        await sender.send(make(sender, 1, 2)[:-5])
        await asyncio.to_thread(until, lambda: daemon.group()["readings"]["received"] == 19, "received")
        assert await asyncio.to_thread(run.end) == 0
        await sender.drain_acknowledged()
        assert sender.acknowledged == 19
        await sender.close()
    assert await stored(postgresql_dsn, schema) == expected(2)[:-5]


async def test_a_daemon_may_start_before_its_database(tmp_path: Path, state_dir: Path) -> None:
    server = EmbeddedPostgresql(state_dir)
    dsn = await server.start()
    await server.stop()
    port = free_port()
    with configured(tmp_path, dsn) as file:
        file.write_text(file.read_text().replace("[api]\nport = 0", f"[api]\nport = {port}"))
        with running("run", str(file)) as run:
            await asyncio.to_thread(run.until_said, "taking readings into the journal until the database answers")
            async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
                answer = await client.get(f"http://127.0.0.1:{port}/ready")
            assert (answer.status_code, answer.json()["status"]) == (503, "store_away")
            try:
                await server.start()
                daemon = await asyncio.to_thread(Daemon, run)
                assert daemon.ready() == 200
                assert run.end() == 0
            finally:
                await server.stop()


async def test_two_daemons_do_not_share_a_state_folder_or_a_port(
    tmp_path: Path, postgresql_dsn: str, schema: str
) -> None:
    settings = {"dsn": postgresql_dsn, "layout": "rows"}
    with configured(tmp_path, postgresql_dsn, schema=f"service_{schema}") as file, running("run", str(file)) as run:
        daemon = await asyncio.to_thread(Daemon, run)
        second = triggerlog("run", str(file))
        assert second.returncode == 1
        assert re.search(r"triggerlog: state_dir: another daemon uses \S+/state; stop it, or give", second.stderr)
        third = tmp_path / "third.toml"
        others = {"folder": tmp_path / "other", "port": daemon.port, "schema": f"other_{schema}"}
        third.write_text(CONFIGURATION.format(**settings, **others))
        said = f"sources[0].port: cannot listen on 127.0.0.1:{daemon.port} (address already in use)"
        for _ in range(2):
            answer = triggerlog("run", str(third))
            assert answer.returncode == 1
            assert said in answer.stderr
            assert "Traceback" not in answer.stderr + second.stderr
        # Once: a service manager tries it every second.
        events = [event.text for event in read_events(tmp_path / "other" / "state")]
        assert [text for text in events if text.startswith(f"the daemon ends: {said}")] == [events[-1]]


class Group:
    """Follows a log whose reading takes until `caught_up`."""

    def __init__(self) -> None:
        self.began, self.caught_up = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        self.began.set()
        await self.caught_up.wait()


def data_path(monkeypatch: pytest.MonkeyPatch, **groups: Group) -> DataPath:
    async def make_pipelines(*_: object) -> bool:
        return True

    path = DataPath.__new__(DataPath)
    path.intakes, path._following, path._committing = {}, groups, []
    monkeypatch.setattr(path, "_make_pipelines", make_pipelines)
    return path


def going_on(path: DataPath, tasks: asyncio.TaskGroup, stop: asyncio.Event) -> asyncio.Task[bool]:
    return tasks.create_task(path.go_on({}, tasks, stop, availability_changed=lambda: None, made=lambda: None))


async def test_the_end_does_not_wait_for_a_log_that_cannot_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its disk, or the database, away again a daemon could not be stopped."""
    stuck, stop = Group(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        going = going_on(data_path(monkeypatch, bpm=stuck), tasks, stop)
        await stuck.began.wait()
        stop.set()
        assert await asyncio.wait_for(going, 20) is False
        stuck.caught_up.set()


async def test_a_log_that_cannot_go_on_keeps_no_other_group_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of one group was locked, and what came of the others was neither committed nor acknowledged."""
    blocked, healthy = Group(), Group()
    async with asyncio.TaskGroup() as tasks:
        going = going_on(data_path(monkeypatch, bpm=blocked, toroid=healthy), tasks, asyncio.Event())
        await asyncio.wait_for(healthy.began.wait(), 20)
        healthy.caught_up.set()
        await asyncio.sleep(0)
        assert not going.done()
        blocked.caught_up.set()
        assert await going

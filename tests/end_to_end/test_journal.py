"""The journal in a real daemon: the database away, the daemon killed, more than memory holds, and a full journal."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
import httpx
import pytest

from backends.postgresql.server.embedded import EmbeddedPostgresql
from schemas.wire import Ack, ProtocolError
from tests.support.processes import Running, running, triggerlog, until
from tests.support.sending import INSTRUMENTS, balanced, send
from tests.support.servers import server_folder

pytestmark = pytest.mark.slow

CONFIGURATION = """
state_dir = "{folder}/state"

[[groups]]
name = "bpm"
count = 12
channels = [{{ name = "top_in" }}, {{ name = "gain", dtype = "int16" }}]

[[sources]]
kind = "tcp"
port = 0
acknowledge_every_ms = 5

[database]
dsn = "{dsn}"
command_timeout_s = 5

[committer]
max_batch_mib = 0.05
max_waiting_mib = {memory}

[journal]
max_mib = {journal}

[api]
port = 0
"""
COUNTED = """
    SELECT count(*), count(DISTINCT (run, trigger_id, instrument)), coalesce(max(trigger_id), 0)::int8
    FROM triggerlog.bpm
"""


class Daemon:
    """`triggerlog run`, once it takes readings."""

    def __init__(self, run: Running) -> None:
        self.run = run
        found = run.until_said(r"taking readings at \S+:(\d+); API at (\S+)")
        self.port, self.api = int(found[1]), found[2]

    def group(self) -> dict:
        status = (
            httpx.get(f"{self.api}/api/v1/status", verify=False, trust_env=False, timeout=60).raise_for_status().json()
        )
        return status["groups"]["bpm"]


@contextmanager
def logging_daemon(folder: Path, dsn: str, *, memory: float = 1.0, journal: float = 256.0) -> Iterator[Daemon]:
    file = folder / "beam.toml"
    file.write_text(CONFIGURATION.format(folder=folder, dsn=dsn, memory=memory, journal=journal))
    with running("run", str(file)) as run:
        yield Daemon(run)


@asynccontextmanager
async def own_server() -> AsyncIterator[tuple[EmbeddedPostgresql, str]]:
    with server_folder() as folder:
        server = EmbeddedPostgresql(folder / "server")
        try:
            yield server, await server.start()
        finally:
            await server.stop()


async def counted(dsn: str) -> tuple[int, int, int]:
    connection = await asyncpg.connect(dsn)
    try:
        return tuple(await connection.fetchrow(COUNTED))
    finally:
        await connection.close()


async def test_what_was_received_survives_the_daemon_while_the_database_is_away(tmp_path: Path) -> None:
    async with own_server() as (server, dsn):
        with logging_daemon(tmp_path, dsn) as daemon:
            await send(daemon.port, 1, 50, Ack.COMMITTED)
            await server.stop()
            assert await send(daemon.port, 51, 400, Ack.RECEIVED) == 400 * INSTRUMENTS
            assert balanced(daemon.group())
            daemon.run.end(signal.SIGKILL)
        await server.start()
        with logging_daemon(tmp_path, dsn) as daemon:
            until(lambda: daemon.group()["readings"]["waiting"] == 0, "what was left is committed")
            group = daemon.group()
            assert group["readings"]["received"] == group["readings"]["committed"] == 400 * INSTRUMENTS
            assert balanced(group)
            assert "4800 readings of the journal went through assembly again" in daemon.run.said
            assert await counted(dsn) == (450 * INSTRUMENTS, 450 * INSTRUMENTS, 450)
            # What comes again of it is recognised, and what is new goes on.
            await send(daemon.port, 441, 20, Ack.COMMITTED)
            assert daemon.group()["readings"]["duplicate"] == 10 * INSTRUMENTS
            assert await counted(dsn) == (460 * INSTRUMENTS, 460 * INSTRUMENTS, 460)
            assert daemon.run.end() == 0


async def test_more_waits_than_memory_holds(tmp_path: Path) -> None:
    async with own_server() as (server, dsn):
        with logging_daemon(tmp_path, dsn, memory=0.25) as daemon:
            await send(daemon.port, 1, 1, Ack.COMMITTED)
            await server.stop()
            for k in range(20):
                await send(daemon.port, 2 + 200 * k, 200, Ack.RECEIVED)
            group = daemon.group()
            assert group["triggers"]["waiting"] == 4000
            assert group["backlog_mib"] < 1.0
            assert group["journal_mib"] > 1.5
            assert not group["backpressure"]
            await server.start()
            until(lambda: daemon.group()["readings"]["waiting"] == 0, "all is committed")
            assert await counted(dsn) == (4001 * INSTRUMENTS, 4001 * INSTRUMENTS, 4001)
            assert balanced(daemon.group())
            assert daemon.run.end() == 0


async def test_a_full_journal_holds_senders_back_and_loses_nothing(tmp_path: Path) -> None:
    async with own_server() as (server, dsn):
        with logging_daemon(tmp_path, dsn, memory=0.25, journal=2.0) as daemon:
            await send(daemon.port, 1, 1, Ack.COMMITTED)
            await server.stop()
            sending = asyncio.create_task(send(daemon.port, 2, 40_000, Ack.RECEIVED))
            await asyncio.to_thread(until, lambda: daemon.group()["backpressure"], "senders are held back")
            assert not sending.done()
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            until(lambda: daemon.group()["backpressure"], "senders are held back")
            assert daemon.group()["journal_mib"] <= 2.0
            assert "the journal cannot be written" in daemon.run.said
            await server.start()
            until(lambda: daemon.group()["readings"]["waiting"] == 0 and not daemon.group()["backpressure"], "drained")
            group = daemon.group()
            assert balanced(group)
            found = await counted(dsn)
            assert found[0] == found[1] == group["readings"]["committed"]
            assert daemon.run.end() == 0


async def test_the_end_leaves_in_the_journal_what_the_database_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with own_server() as (server, dsn):
        with logging_daemon(tmp_path, dsn) as daemon:
            await send(daemon.port, 1, 1, Ack.COMMITTED)
            await server.stop()
            await send(daemon.port, 2, 30, Ack.RECEIVED)
            assert daemon.run.end() == 0
            assert "360 readings could not be committed" in daemon.run.said
            assert "stay in the journal" in daemon.run.said
        await server.start()
        with logging_daemon(tmp_path, dsn) as daemon:
            until(lambda: daemon.group()["readings"]["waiting"] == 0, "what was left is committed")
            assert (await counted(dsn))[1] == 31 * INSTRUMENTS
            assert daemon.run.end() == 0


async def test_a_database_that_is_put_back_while_no_daemon_runs_is_noticed(tmp_path: Path) -> None:
    async with own_server() as (server, dsn):
        with logging_daemon(tmp_path, dsn) as daemon:
            await send(daemon.port, 1, 10, Ack.COMMITTED)
            assert daemon.run.end() == 0
        await server.stop()
        data = (server._state / "postgresql").resolve()
        await asyncio.to_thread(subprocess.run, ["cp", "-a", data, data.with_name("backup")], check=True)
        await server.start()
        with logging_daemon(tmp_path, dsn) as daemon:
            await send(daemon.port, 11, 20, Ack.COMMITTED)
            assert daemon.group()["readings"]["lost"] == {}
            assert daemon.run.end() == 0
        await server.stop()
        data.rename(data.with_name("newer"))
        data.with_name("backup").rename(data)
        await server.start()
        reconciled = triggerlog("reconcile", str(tmp_path / "beam.toml"), "--daemon", daemon.api)
        assert reconciled.returncode == 3
        assert "240 readings were acknowledged and are in the database no more" in reconciled.stdout
        with logging_daemon(tmp_path, dsn) as daemon:
            assert "the database has lost 240 readings" in daemon.run.said
            await send(daemon.port, 31, 1, Ack.COMMITTED)
            assert daemon.group()["readings"]["lost"] == {"database": 240}
            assert balanced(daemon.group())
            assert daemon.run.end() == 0


async def test_without_a_journal_received_is_refused(tmp_path: Path) -> None:
    async with own_server() as (_, dsn):
        with logging_daemon(tmp_path, dsn, journal=0) as daemon:
            with pytest.raises(ProtocolError, match="keeps no journal; use ack=committed"):
                await send(daemon.port, 1, 1, Ack.RECEIVED)
            await send(daemon.port, 1, 5, Ack.COMMITTED)
            assert (await counted(dsn))[1] == 5 * INSTRUMENTS
            assert daemon.run.end() == 0

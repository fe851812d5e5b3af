"""A server that acknowledged before it wrote, and was killed: what it lost is committed again, and the law holds.

The servers are real ones, set to write as late as they may, so that being killed loses something for certain.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import httpx
import pymysql
import pytest

from backends.throwaway.base import ThrowawayServer
from backends.throwaway.mariadb import ThrowawayMariadb
from backends.throwaway.postgresql import ThrowawayPostgresql
from tests.support.processes import Running, running, until
from tests.support.sending import INSTRUMENTS, balanced, send
from tests.support.servers import installed, server_folder

pytestmark = pytest.mark.slow

TRIGGERS = 200
CONFIGURATION = """
state_dir = "{folder}/state"

[[groups]]
name = "bpm"
count = 12
channels = [{{ name = "top_in" }}]

[[sources]]
kind = "tcp"
port = 0
acknowledge_every_ms = 5

[database]
dsn = "{dsn}"
durability = "async"
command_timeout_s = 5

[journal]
max_mib = {journal}

[api]
port = 0
"""
WRITERS = """
    SELECT pid FROM pg_stat_activity
    WHERE backend_type IN ('walwriter', 'background writer', 'checkpointer', 'autovacuum launcher')
"""
"""What writes the WAL beside those who commit: also who writes a block, which the WAL has to precede."""


@contextmanager
def late_postgresql(folder: Path) -> Iterator[tuple[ThrowawayServer, str]]:
    """A server that writes what it commits asynchronously only after it was killed and started again."""
    server = ThrowawayPostgresql(folder / "server")
    dsn = server.start()

    async def writers() -> list[int]:
        connection = await asyncpg.connect(dsn)
        try:
            return [row["pid"] for row in await connection.fetch(WRITERS)]
        finally:
            await connection.close()

    for writer in asyncio.run(writers()):
        os.kill(writer, signal.SIGSTOP)
    try:
        yield server, dsn
    finally:
        server.thaw()
        server.stop()


@contextmanager
def late_mariadb(folder: Path) -> Iterator[tuple[ThrowawayServer, str]]:
    server = ThrowawayMariadb(folder / "server", innodb_flush_log_at_trx_commit=0, innodb_flush_log_at_timeout=10)
    with installed():
        dsn = server.start()
    try:
        yield server, dsn
    finally:
        server.stop()


def configured(folder: Path, dsn: str, journal: float = 256.0) -> Path:
    file = folder / "beam.toml"
    file.write_text(CONFIGURATION.format(folder=folder, dsn=dsn, journal=journal))
    return file


def addresses(run: Running) -> tuple[int, str]:
    found = run.until_said(r"taking readings at \S+:(\d+); API at (\S+)")
    return int(found[1]), found[2]


def group_of(api: str) -> dict:
    return (
        httpx.get(f"{api}/api/v1/status", verify=False, trust_env=False, timeout=60)
        .raise_for_status()
        .json()["groups"]["bpm"]
    )


async def in_postgresql(dsn: str) -> tuple[int, int]:
    connection = await asyncpg.connect(dsn)
    try:
        return tuple(
            await connection.fetchrow(
                "SELECT count(*), count(DISTINCT (run, trigger_id, instrument)) FROM triggerlog.bpm"
            )
        )
    finally:
        await connection.close()


def in_mariadb(dsn: str) -> tuple[int, int]:
    port = int(dsn.rpartition(":")[2])
    with pymysql.connect(host="127.0.0.1", port=port, user="root") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*), count(DISTINCT run, trigger_id, instrument) FROM triggerlog.bpm")
        (found,) = cursor.fetchall()
        return found


def test_what_postgresql_lost_is_committed_again() -> None:
    with server_folder() as folder, late_postgresql(folder) as (server, dsn):
        file = configured(folder, dsn)
        with running("run", str(file)) as run:
            port, api = addresses(run)
            assert asyncio.run(send(port, 1, TRIGGERS)) == TRIGGERS * INSTRUMENTS
            server.kill()
            server.start()
            assert asyncio.run(send(port, TRIGGERS + 1, 1)) == INSTRUMENTS
            until(lambda: group_of(api)["readings"]["waiting"] == 0, "all is committed")
            group = group_of(api)
            assert group["readings"]["committed"] == (TRIGGERS + 1) * INSTRUMENTS
            assert balanced(group)
            assert group["readings"]["dead"] == 0
            run.until_said(r"no longer has all that it acknowledged \(async\); what the journal has of it is committed")
            assert "are lost" not in run.said
            assert run.end() == 0
        assert asyncio.run(in_postgresql(dsn)) == ((TRIGGERS + 1) * INSTRUMENTS,) * 2


def test_both_killed_at_once_lose_nothing_either() -> None:
    with server_folder() as folder, late_postgresql(folder) as (server, dsn):
        file = configured(folder, dsn)
        with running("run", str(file)) as run:
            port, api = addresses(run)
            assert asyncio.run(send(port, 1, TRIGGERS)) == TRIGGERS * INSTRUMENTS
            # All of it is held; what nobody waits for is written within 0.4 s.
            until(lambda: group_of(api)["journal_mib"] > 0, "the journal is written")
            asyncio.run(asyncio.sleep(0.5))
            server.kill()
            run.process.kill()
        server.start()
        with running("run", str(file)) as run:
            port, api = addresses(run)
            until(lambda: group_of(api)["readings"]["received"] > 0, "what was left is read")
            until(lambda: group_of(api)["readings"]["waiting"] == 0, "what was left is committed")
            assert run.end() == 0
        assert asyncio.run(in_postgresql(dsn)) == (TRIGGERS * INSTRUMENTS,) * 2


def test_without_a_journal_the_loss_is_told_and_counted() -> None:
    with server_folder() as folder, late_postgresql(folder) as (server, dsn):
        file = configured(folder, dsn, journal=0)
        with running("run", str(file)) as run:
            port, api = addresses(run)
            assert asyncio.run(send(port, 1, TRIGGERS)) == TRIGGERS * INSTRUMENTS
            server.kill()
            server.start()
            assert asyncio.run(send(port, TRIGGERS + 1, 1)) == INSTRUMENTS
            lost = int(run.until_said(r"no longer has all that it acknowledged \(async\); (\d+) readings are lost")[1])
            group = group_of(api)
            assert 0 < lost == group["readings"]["dead"]
            assert balanced(group)
            assert run.end() == 0
        stored = (TRIGGERS + 1) * INSTRUMENTS - lost
        assert asyncio.run(in_postgresql(dsn)) == (stored, stored)


def test_mariadb_killed_before_it_wrote_lacks_nothing_in_the_end() -> None:
    with server_folder() as folder, late_mariadb(folder) as (server, dsn):
        file = configured(folder, dsn)
        with running("run", str(file)) as run:
            port, api = addresses(run)
            for k in range(3):
                assert asyncio.run(send(port, 1 + k * TRIGGERS, TRIGGERS)) == TRIGGERS * INSTRUMENTS
                server.kill()
                server.start()
            assert asyncio.run(send(port, 1 + 3 * TRIGGERS, 1)) == INSTRUMENTS
            until(lambda: group_of(api)["readings"]["waiting"] == 0, "all is committed")
            assert balanced(group_of(api))
            assert run.end() == 0
        assert in_mariadb(dsn) == ((3 * TRIGGERS + 1) * INSTRUMENTS,) * 2

"""Marks in a real daemon: the database stopped, the daemon killed, and the mark is there afterwards."""

import signal
import time
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx
import pytest

from tests.end_to_end.test_journal import Daemon, logging_daemon, own_server
from tests.support.processes import until

pytestmark = pytest.mark.slow


def make(daemon: Daemon, folder: Path, text: str, identity: str) -> httpx.Response:
    token = (folder / "state" / "api-token").read_text().strip()
    return httpx.post(
        f"{daemon.api}/api/v1/marks",
        json={"id": identity, "time_ns": time.time_ns(), "text": text},
        headers={"authorization": f"Bearer {token}"},
        timeout=60,
        trust_env=False,
    )


def waiting(daemon: Daemon) -> int:
    answer = httpx.get(f"{daemon.api}/api/v1/status", timeout=60, trust_env=False)
    return int(answer.raise_for_status().json()["marks"]["waiting"])


async def test_a_mark_survives_that_the_database_is_away_and_the_daemon_is_killed(tmp_path: Path) -> None:
    one, other = str(uuid4()), str(uuid4())
    async with own_server() as (server, dsn):
        with logging_daemon(tmp_path, dsn) as daemon:
            assert make(daemon, tmp_path, "shift began", one).status_code == 201
            await server.stop()
            answer = make(daemon, tmp_path, "beam study began", other)
            assert (answer.status_code, answer.json()) == (202, {"id": other, "stored": False})
            assert waiting(daemon) == 1
            daemon.run.end(signal.SIGKILL)
        await server.start()
        with logging_daemon(tmp_path, dsn) as daemon:
            until(lambda: waiting(daemon) == 0, "the mark is in the database")
            assert make(daemon, tmp_path, "shift began", one).status_code == 409  # at another time
        connection = await asyncpg.connect(dsn)
        try:
            rows = await connection.fetch("SELECT id, text, withdrawn_ns FROM triggerlog.marks ORDER BY time_ns")
        finally:
            await connection.close()
        assert [tuple(row) for row in rows] == [(one, "shift began", None), (other, "beam study began", None)]

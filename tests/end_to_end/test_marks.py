"""Marks in a real daemon: the database stopped, the daemon killed, and the mark is there afterwards."""

import json
import signal
import time
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx
import pytest
from websockets.sync.client import connect

from tests.end_to_end.test_journal import Daemon, logging_daemon, own_server
from tests.support.processes import running, until

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


def shown(page: str) -> dict[str, bool]:
    """The marks that a page has, and whether each waits for the database."""
    with connect(page.replace("http", "ws") + "/ws", proxy=None, open_timeout=60) as socket:
        sections = json.loads(socket.recv(60))["sections"]
    return {line["text"]: line["waits"] for line in sections.get("marks", {"all": []})["all"]}


async def test_the_page_has_marks_also_while_the_database_is_away_and_after_its_own_restart(tmp_path: Path) -> None:
    async with own_server() as (server, dsn):
        with logging_daemon(tmp_path, dsn) as daemon:
            command = ("dashboard", "--daemon", daemon.api, "--port", "0")
            assert make(daemon, tmp_path, "shift began", str(uuid4())).status_code == 201
            with running(*command) as page:
                url = page.until_said(r"page: (http://\S+)")[1]
                until(lambda: shown(url) == {"shift began": False}, "the page has the mark")
                await server.stop()
                assert make(daemon, tmp_path, "beam study began", str(uuid4())).status_code == 202
                both = {"shift began": False, "beam study began": True}
                until(lambda: shown(url) == both, "the page has the mark that waits")
            await server.start()
            until(lambda: waiting(daemon) == 0, "the mark is in the database")
            with running(*command) as page:
                url = page.until_said(r"page: (http://\S+)")[1]
                until(lambda: shown(url) == dict.fromkeys(both, False), "a page that begins has both")
            assert daemon.run.end() == 0


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

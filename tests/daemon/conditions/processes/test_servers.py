"""The server in processes of its own, on a real PostgreSQL: several of them, restarts, a database that goes away."""

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import httpx
import psutil
import pytest

from backends.postgresql.schema import lock_schema
from backends.throwaway.postgresql import ThrowawayPostgresql
from daemon.conditions.servers import ConditionsServers
from daemon.core.configuration import load_config
from daemon.core.configuration.api_token import api_token
from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed
from daemon.web.http import bound
from schemas.states import ConditionsState
from tests.support.pipelines import eventually
from tests.support.processes import GROUP, LISTENERS, free_port, running, until
from tests.support.servers import server_folder

pytestmark = pytest.mark.slow

PREFIX = "/api/cdb_rest/"
NOT_MADE = re.compile("the tables of conditions are being made or checked|the database is away: .* not answer in time")


@dataclass(frozen=True)
class Database:
    """A server of this module's own, which its tests stop and start again."""

    server: ThrowawayPostgresql
    dsn: str

    async def stop(self) -> None:
        await asyncio.to_thread(self.server.stop)

    async def start(self) -> None:
        assert await asyncio.to_thread(self.server.start) == self.dsn


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Database]:
    with server_folder() as folder:
        server = ThrowawayPostgresql(folder)
        yield Database(server, server.start())
        server.stop()


def configuration(folder: Path, dsn: str, schema: str, more: str = "") -> Path:
    file = folder / "beam.toml"
    database = f'[database]\ndsn = "{dsn}"\ncommand_timeout_s = 5.0\n'
    file.write_text(f'{GROUP}\n{database}[conditions]\nport = 0\nschema = "{schema}"\n{more}')
    return file


@dataclass(kw_only=True)
class Running:
    servers: ConditionsServers
    events: Events
    client: httpx.AsyncClient

    async def order(self, method: str, path: str, body: object = None) -> httpx.Response:
        answer = await self.client.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        return answer

    async def rows(self, tag: str, major: int) -> list[list[object]]:
        """What is valid. Each request has a connection of its own, which any process may get."""
        answer = await self.client.get(f"payloadiovs/?gtName={tag}&majorIOV={major}&minorIOV=0")
        assert answer.status_code == 200, answer.text
        found: list[list[object]] = answer.json()
        return found

    async def state(self, wanted: ConditionsState) -> None:
        async with asyncio.timeout(60):
            while self.servers.status().state is not wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@asynccontextmanager
async def served(
    folder: Path, dsn: str, schema: str, more: str = "", state: ConditionsState = ConditionsState.RUNNING
) -> AsyncIterator[Running]:
    loaded = load_config(configuration(folder, dsn, schema, more))
    events = Events()
    servers = ConditionsServers(loaded, events, pause_s=0.2)
    servers.start()
    token = {"authorization": f"Bearer {api_token(loaded)}"}
    try:
        async with httpx.AsyncClient(
            base_url=servers.address + PREFIX,
            headers=token,
            trust_env=False,
            verify=False,
            timeout=60,
            limits=httpx.Limits(max_keepalive_connections=0),
        ) as client:
            made = Running(servers=servers, events=events, client=client)
            await made.state(state)
            yield made
    finally:
        await servers.end()


async def a_tag(api: Running, name: str, status: str) -> str:
    """A tag with one list, in which two intervals are; returns the name of the list."""
    await api.order("POST", "gt", {"name": name, "status": "unlocked"})
    await api.order("POST", "pt", {"name": f"Beam_{name}"})
    made = (await api.order("POST", "pl", {"payload_type": f"Beam_{name}"})).json()["name"]
    await api.order("PUT", "pl_attach", {"payload_list": made, "global_tag": name})
    await api.order("POST", "bulk_piov", [row(made, "first", 1), row(made, "second", 10)])
    if status != "unlocked":
        await api.order("PUT", f"gt_change_status/{name}/{status}")
    return str(made)


def row(name: str, url: str, major: int) -> dict[str, object]:
    return {"payload_url": url, "payload_list": name, "major_iov": major, "minor_iov": 0}


def pids(api: Running) -> list[int]:
    return [each.pid for each in psutil.Process().children() if "daemon.conditions" in each.cmdline()]


async def test_several_processes_answer_what_was_written_through_any_of_them(
    tmp_path: Path, postgresql: Database, schema: str
) -> None:
    async with served(tmp_path, postgresql.dsn, schema, "processes = 3\n") as api:
        name = await a_tag(api, "physics", "locked")
        asked = 0
        for major in range(20, 32, 2):
            await api.order("POST", "bulk_piov", [row(name, f"u{major}", major)])
            acknowledged = time.monotonic()
            while time.monotonic() - acknowledged < 0.5:
                found = (await api.rows("physics", 10**6))[0][1]
                asked += 1
                assert found == f"u{major}"
                await asyncio.sleep(0.01)
        await eventually(lambda: api.servers.status().requests["payloadiovs"]["200"] == asked)  # they report it
        status = api.servers.status()
        assert (status.processes, status.running, status.state) == (3, 3, ConditionsState.RUNNING)
        assert status.memory_hits + status.database_reads >= status.requests["payloadiovs"]["200"]
        assert status.p99_ms is not None
        assert (status.tags_in_memory, status.memory_mib > 0) == (1, True)
        told = status.clients
        (client,) = told.clients
        assert (client.address, (client.user_agent or "").startswith("python-httpx/")) == ("127.0.0.1", True)
        assert 0 < client.requests <= sum(n for by in status.requests.values() for n in by.values())
        assert client.bytes > 50 * client.requests
        assert (told.others.requests, told.others.bytes, 0 < told.over_s <= 60) == (0, 0, True)
        assert any("physics is locked" in event.text for event in api.events.newest(50))
    assert not pids(api)


async def test_a_process_that_is_killed_is_started_again(tmp_path: Path, postgresql: Database, schema: str) -> None:
    async with served(tmp_path, postgresql.dsn, schema) as api:
        await a_tag(api, "physics", "frozen")
        assert await api.rows("physics", 5)
        await eventually(lambda: "gt" in api.servers.status().requests)  # it reports now and then
        before = api.servers.status().requests
        (pid,) = pids(api)
        os.kill(pid, signal.SIGKILL)
        await api.state(ConditionsState.FAILED)
        assert "SIGKILL" in (api.servers.status().problem or "")
        await api.state(ConditionsState.RUNNING)
        assert [row[1] for row in await api.rows("physics", 5)] == ["first"]
        assert api.servers.status().requests["gt"] == before["gt"]  # counted once, and not lost with the process
        assert any("starts again" in event.text for event in api.events.newest())


async def test_a_database_that_is_stopped_and_comes_back(tmp_path: Path, postgresql: Database, schema: str) -> None:
    async with served(tmp_path, postgresql.dsn, schema) as api:
        await a_tag(api, "frozen", "frozen")
        await a_tag(api, "locked", "locked")
        for tag in ("frozen", "locked"):
            for _ in range(3):
                assert len(await api.rows(tag, 5)) == 1
                await asyncio.sleep(0.2)
        assert (await api.client.get("globalTags")).status_code == 200
        await postgresql.stop()
        try:
            await asyncio.sleep(1.1)
            assert [row[1] for row in await api.rows("frozen", 5)] == ["first"]
            refused = await api.client.get("payloadiovs/?gtName=locked&majorIOV=5&minorIOV=0")
            assert (refused.status_code, "database is away" in refused.json()["detail"]) == (503, True)
            assert (await api.client.post("pt", json={"name": "x"})).status_code == 503
            assert [each["name"] for each in (await api.client.get("globalTags")).json()] == ["frozen", "locked"]
            await api.state(ConditionsState.DATABASE_AWAY)
        finally:
            await postgresql.start()
        await api.state(ConditionsState.RUNNING)
        assert len(await api.rows("locked", 5)) == 1
        await api.order("POST", "pt", {"name": "x"})


async def test_a_database_that_hangs_is_given_up_and_the_frozen_tag_never_waits(
    tmp_path: Path, postgresql: Database, schema: str
) -> None:
    async with served(tmp_path, postgresql.dsn, schema) as api:
        await a_tag(api, "frozen", "frozen")
        await a_tag(api, "locked", "locked")
        for tag in ("frozen", "locked"):
            for _ in range(3):
                assert len(await api.rows(tag, 5)) == 1
                await asyncio.sleep(0.2)
        postgresql.server.freeze()
        try:
            await asyncio.sleep(1.1)
            waiting = asyncio.create_task(api.client.get("payloadiovs/?gtName=locked&majorIOV=5&minorIOV=0"))
            await asyncio.sleep(0.1)
            assert len(await api.rows("frozen", 5)) == 1
            assert not waiting.done()
            assert (await waiting).status_code == 503
        finally:
            postgresql.server.thaw()
        await api.state(ConditionsState.RUNNING)
        for _ in range(100):
            if (await api.client.get("payloadiovs/?gtName=locked&majorIOV=5&minorIOV=0")).status_code == 200:
                break
            await asyncio.sleep(0.2)
        assert len(await api.rows("locked", 5)) == 1


async def test_a_server_waits_for_a_database_that_is_away_at_the_start(
    tmp_path: Path, postgresql: Database, schema: str
) -> None:
    await postgresql.stop()
    try:
        waiting = served(tmp_path, postgresql.dsn, schema, state=ConditionsState.DATABASE_AWAY)
        async with waiting as api:
            refused = await api.client.get("globalTags")
            assert (refused.status_code, "away" in refused.json()["detail"]) == (503, True)
            await postgresql.start()
            await api.state(ConditionsState.RUNNING)
            assert (await api.client.get("globalTags")).json() == []
    finally:
        await postgresql.start()


async def test_while_the_tables_are_made_the_answer_is_that_they_are(
    tmp_path: Path, postgresql: Database, schema: str
) -> None:
    connection = await asyncpg.connect(postgresql.dsn)
    making = connection.transaction()
    await making.start()
    await connection.execute(lock_schema(schema))
    async with served(tmp_path, postgresql.dsn, schema, state=ConditionsState.DATABASE_AWAY) as api:
        for method, path in (("POST", "pt"), ("GET", "pt"), ("GET", "globalTags"), ("DELETE", "deleteGlobalTag/a")):
            refused = await api.client.request(method, path, json={"name": "a"} if method == "POST" else None)
            assert (refused.status_code, bool(NOT_MADE.match(refused.json()["detail"]))) == (503, True), refused.text
            assert refused.headers["retry-after"] == "2"
        assert (await api.client.get(f"{api.servers.address}/health")).status_code == 200
        await making.rollback()
        await connection.close()
        await api.state(ConditionsState.RUNNING)
        await api.order("POST", "pt", {"name": "a"})


async def test_a_port_that_is_taken_is_said_even_by_another_server_of_conditions(
    tmp_path: Path, postgresql: Database, schema: str
) -> None:
    port = free_port()
    with bound("127.0.0.1", port, is_shared=True) as taken:
        taken.listen()
        loaded = load_config(configuration(tmp_path, postgresql.dsn, schema, "").resolve())
        config = loaded.config.conditions.model_copy(update={"port": port})
        object.__setattr__(loaded, "config", loaded.config.model_copy(update={"conditions": config}))
        with pytest.raises(CommandFailed, match=r"conditions\.port: cannot listen on 127\.0\.0\.1"):
            ConditionsServers(loaded, Events()).start()


async def test_conditions_are_served_when_it_is_said(tmp_path: Path, postgresql: Database, schema: str) -> None:
    events = Events()
    servers = ConditionsServers(load_config(configuration(tmp_path, postgresql.dsn, schema)), events)
    servers.start()
    try:
        await eventually(lambda: any("conditions are served at" in event.text for event in events.newest()))
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            assert (await client.get(f"{servers.address}/health")).status_code == 200
    finally:
        await servers.end()


def test_the_command_serves_until_it_is_told_to_end(tmp_path: Path, postgresql: Database, schema: str) -> None:
    file = configuration(tmp_path, postgresql.dsn, schema)
    with running("conditions", "serve", str(file)) as run:
        found = run.until_said(r"conditions are served at (\S+)")
        url = found[1] + PREFIX
        assert httpx.get(url + "gtstatus", trust_env=False, timeout=60).json()[0]["name"] == "unlocked"
        assert run.end() == 0, run.said


def test_a_daemon_runs_the_server_beside_its_embedded_database_and_shows_it(state_dir: Path) -> None:
    folder = state_dir.parent
    port, api = free_port(), free_port()
    url = f"http://127.0.0.1:{port}{PREFIX}"
    file = folder / "beam.toml"
    conditions = f"[conditions]\nserve = true\nport = {port}\n"
    file.write_text(f'state_dir = "{state_dir}"\n{GROUP}{LISTENERS.format(api=api)}{conditions}')
    with running("run", str(file)) as run:
        run.until_said(r"taking readings at")
        until(lambda: _status(url) == 200, "the server answers")

        def shown() -> dict:
            return httpx.get(f"http://127.0.0.1:{api}/api/v1/status", trust_env=False, timeout=60).json()["conditions"]

        until(lambda: shown()["requests"].get("globalTags", {}).get("200", 0) >= 1, "the status counts it")
        assert (shown()["state"], shown()["address"]) == ("running", f"http://127.0.0.1:{port}")
        metrics = httpx.get(f"http://127.0.0.1:{api}/metrics", trust_env=False, timeout=60).text
        assert 'triggerlog_conditions_requests_total{route="globalTags",status="200"}' in metrics
        assert 'triggerlog_conditions_state{state="running"} 1.0' in metrics
        assert run.end() == 0, run.said
    until(lambda: _status(url) == 0, "the server ends with the daemon")


def _status(url: str) -> int:
    try:
        return httpx.get(url + "globalTags", trust_env=False, timeout=60).status_code
    except httpx.TransportError:
        return 0

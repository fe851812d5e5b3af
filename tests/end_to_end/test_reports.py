"""A real daemon that is killed while instruments report on change, and its server, too: all is stored, and once.

Their folder is compared with all that was sent, at each level of acknowledgement.
"""

import asyncio
import random
import re
import signal
import textwrap
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from backends import open_folders_store
from backends.kinds import KINDS
from backends.throwaway.base import ThrowawayServer
from daemon.client.sender import Sender
from schemas.checking.dsn import Backend
from schemas.config import DatabaseConfig
from schemas.wire import Ack
from tests.support.kills import KILLS
from tests.support.lives import SQL_SERVERS, random_moments
from tests.support.processes import Running, free_port, running, triggerlog, until
from tests.support.reports import NAN, PATH, Report, expected, in_folder, readings_of
from tests.support.servers import installed, server_folder

pytestmark = pytest.mark.slow

CONFIGURATION = """
state_dir = "{folder}/state"

[[groups]]
name = "current"
instruments = ["Q1", "Q2", "Q3"]
channels = [{{ name = "ampere", unit = "A" }}, {{ name = "volt", dtype = "float32" }}]
folder = "{path}"

[[sources]]
kind = "tcp"
port = {tcp}
acknowledge_every_ms = 5

[database]
dsn = "{dsn}"
command_timeout_s = 3

[api]
port = {api}
"""
LEVELS = (Ack.RECEIVED, Ack.SPOOLED, Ack.COMMITTED)
"""Each has an instrument."""
SETTLED_S = 120
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=SQL_SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[ThrowawayServer]:
    """A server that the test may kill."""
    with server_folder() as folder:
        with installed():
            made = KINDS[SQL_SERVERS[request.param]].throwaway_server(folder)
            made.start()
        yield made
        made.stop()


class Magnets:
    """Three magnets whose senders outlive the daemon, and all that they reported."""

    def __init__(self, port: int, rng: random.Random) -> None:
        self._port, self._rng = port, rng
        self._senders: list[Sender] = []
        self._now = 1_000_000
        self.reported: list[Report] = []

    async def connect(self) -> None:
        for level in LEVELS:
            self._senders.append(
                await Sender.connect("127.0.0.1", self._port, "current", ack=level, reconnect=True, timeout_s=60)
            )

    async def report(self, seconds: float) -> None:
        """Report for so long: a value mostly, sometimes its end, sometimes one that comes late."""
        until_s = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until_s:
            for instrument, sender in enumerate(self._senders):
                reports = [(instrument, time_ns, self._value()) for time_ns in self._times()]
                self.reported += reports
                await sender.send(readings_of(reports))
            await asyncio.sleep(0.002)

    def _times(self) -> list[int]:
        count = self._rng.randint(1, 3)
        self._now += 10 * count
        times = [self._now + 10 * k for k in range(count)]
        self._rng.shuffle(times)
        return times

    def _value(self) -> float:
        return NAN if self._rng.random() < 0.1 else float(self._rng.randint(0, 1000))

    async def drain(self) -> None:
        for sender in self._senders:
            await sender.drain_acknowledged(SETTLED_S)

    async def close(self) -> None:
        for sender in self._senders:
            await sender.close()


@asynccontextmanager
async def folders_of(dsn: str, folder: Path):
    store = open_folders_store(DatabaseConfig(dsn=dsn), schema="triggerlog_folders", state_dir=folder)
    try:
        yield store
    finally:
        await store.close()


def status_at(port: int) -> dict[str, Any]:
    found = httpx.get(f"http://127.0.0.1:{port}/api/v1/status", trust_env=False, timeout=60)
    return dict(found.raise_for_status().json())


def started(file: Path) -> Running:
    run = Running("run", str(file))
    try:
        run.until_said(r"taking readings")
    except BaseException:
        run.close()
        raise
    return run


async def test_nothing_is_lost_and_nothing_is_twice_when_daemon_and_server_are_killed(
    server: ThrowawayServer, tmp_path: Path
) -> None:
    rng = random_moments()
    tcp, api, dsn = free_port(), free_port(), await asyncio.to_thread(server.start)
    file = tmp_path / "magnets.toml"
    file.write_text(CONFIGURATION.format(folder=tmp_path, dsn=dsn, tcp=tcp, api=api, path=PATH))
    magnets = Magnets(tcp, rng)
    run = await asyncio.to_thread(started, file)
    try:
        await magnets.connect()
        for number in range(KILLS):
            reporting = asyncio.create_task(magnets.report(1.0))
            await asyncio.sleep(rng.uniform(0.2, 1.0))
            if number % 2:
                await asyncio.to_thread(server.kill)
            if number % 2 == 0 or rng.random() < 0.5:
                run.end(signal.SIGKILL)
                run.close()
                run = await asyncio.to_thread(started, file)
            await reporting
            await asyncio.to_thread(server.start)
        await magnets.report(0.2)
        await magnets.drain()
        (group,) = (await asyncio.to_thread(status_at, api))["groups"].values()
        assert group["folder"] == PATH
        assert group["dead_letters"]["readings"] == 0
        await magnets.close()
        assert await asyncio.to_thread(run.end) == 0
    finally:
        run.close()
    async with folders_of(dsn, tmp_path) as store:
        assert await in_folder(store) == expected(magnets.reported)
        rows = await store.changes(PATH, -1, 2**63 - 1)
        keys = np.unique(rows[["channel", "since"]])
        assert len(keys) == len(rows) == len({report[:2] for report in magnets.reported})


async def test_the_example_of_the_documentation_reports(postgresql_dsn: str, schema: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "folders.md").read_text().split("## Report on change", 1)[1]
    group, code = (re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)[1] for kind in ("toml", "python"))
    api, tcp = free_port(), free_port()
    file = tmp_path / "magnets.toml"
    file.write_text(
        f'{group}\n[[sources]]\nkind = "tcp"\nport = {tcp}\n[api]\nport = {api}\n[database]\ndsn = "{postgresql_dsn}"\n'
        f'schema = "{schema}_readings"\n[folders]\nschema = "{schema}"\n'
    )
    with running("run", str(file)) as run:
        await asyncio.to_thread(run.until_said, r"taking readings at")
        scope: dict[str, Any] = {"Sender": Sender, "np": np, "time": time}
        wrapped = "async def example():\n" + textwrap.indent(code.replace("8122", str(tcp)), "    ")
        exec(compile(wrapped, "docs/folders.md", "exec"), scope)
        began_ns = time.time_ns()
        await scope["example"]()
        assert (await asyncio.to_thread(status_at, api))["groups"]["current"]["readings"]["committed"] == 1
        said = await asyncio.to_thread(triggerlog, "check-config", str(file))
        assert "reports on change into folder /magnets/current" in said.stdout
        assert await asyncio.to_thread(run.end) == 0
    store = open_folders_store(DatabaseConfig(dsn=postgresql_dsn), schema=schema, state_dir=tmp_path)
    ((channel, since, _, value),) = await in_folder(store)
    assert dict(await store.channels(PATH)) == {0: "Q1", 1: "Q2", 2: "Q3"}
    await store.close()
    assert (channel, value) == (1, 118.2)
    assert began_ns <= since <= time.time_ns()


async def test_a_daemon_that_starts_without_its_database_takes_reports_and_makes_the_folder_later(
    tmp_path: Path,
) -> None:
    with server_folder() as folder:
        server = KINDS[Backend.POSTGRESQL].throwaway_server(folder)
        dsn = await asyncio.to_thread(server.start)
        await asyncio.to_thread(server.kill)
        tcp, api = free_port(), free_port()
        file = tmp_path / "magnets.toml"
        file.write_text(CONFIGURATION.format(folder=tmp_path, dsn=dsn, tcp=tcp, api=api, path=PATH))
        magnets = Magnets(tcp, random_moments())
        try:
            with running("run", str(file)) as run:
                await asyncio.to_thread(run.until_said, r"taking readings into the journal")
                await magnets.connect()
                await magnets.report(0.2)
                run.end(signal.SIGKILL)
            with running("run", str(file)) as run:
                await asyncio.to_thread(run.until_said, r"taking readings into the journal")
                await magnets.report(0.2)
                await asyncio.to_thread(server.start)
                await asyncio.to_thread(run.until_said, r"taking readings at \S+:\d+")
                await magnets.drain()
                await magnets.close()
                assert await asyncio.to_thread(run.end) == 0
            async with folders_of(dsn, tmp_path) as store:
                assert await in_folder(store) == expected(magnets.reported)
        finally:
            await asyncio.to_thread(server.stop)


def test_a_folder_of_another_kind_is_refused_with_the_field_and_the_fix(
    postgresql_dsn: str, schema: str, tmp_path: Path
) -> None:
    tcp, api = free_port(), free_port()
    text = CONFIGURATION.format(folder=tmp_path, dsn=postgresql_dsn, tcp=tcp, api=api, path=PATH)
    text += f'\n[folders]\nschema = "{schema}"\n'
    file = tmp_path / "magnets.toml"
    file.write_text(text)
    said = triggerlog("check-config", str(file))
    assert said.returncode == 0, said.stderr
    assert f"folder {PATH} of group `current`" in said.stdout
    with running("run", str(file)) as run:
        run.until_said(r"taking readings at")
        until(lambda: run.end() == 0, "it ends")
    file.write_text(text.replace('name = "volt", dtype = "float32"', 'name = "celsius"'))
    for command in ("run", "check-config"):
        said = triggerlog(command, str(file))
        assert said.returncode == 1
        assert "Traceback" not in said.stderr
        assert f"group current cannot report into folder {PATH}: its columns are ampere float64, volt float32" in (
            " ".join(said.stderr.split())
        )

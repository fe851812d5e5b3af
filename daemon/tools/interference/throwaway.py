"""A throw-away daemon to experiment on, with a server and a sender of its own, and something stored to read."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from backends.kinds import KINDS
from backends.throwaway.base import free_port
from daemon.client.api.reach import Reach
from daemon.core.configuration import load_config
from daemon.core.configuration.api_token import stored_token
from daemon.core.outcome import CommandFailed
from daemon.core.process.children import Child
from daemon.tools.conditions.calibrations import store_calibrations
from daemon.tools.drill.process import DaemonProcess
from schemas.batch import Layout
from schemas.checking.dsn import Backend
from schemas.conditions.calibration import BUTTONS
from schemas.conditions.intervals import Key

GROUP = "bpm"
CONFIGURATION = """\
state_dir = "state"

[[groups]]
name = "{group}"
count = {instruments}
channels = [{channels}]

[[sources]]
kind = "tcp"
port = {port}

[database]
dsn = {dsn}
layout = "{layout}"

[alarms]
commit_p99_ms = {budget_ms}

[api]
port = {api_port}

[dashboard]
port = 0

[conditions]
payloads = "payloads"
tag = "throwaway"
"""
GOVERNOR = """
[readers.governor]
commit_p99_ms = {ceiling_ms}
"""


@dataclass(frozen=True, kw_only=True)
class Throwaway:
    """What is to be set up.

    rate: triggers a second. fill: triggers that are stored before it begins. ceiling_ms: of the governor.
    """

    backend: Backend = Backend.POSTGRESQL
    layout: Layout = Layout.ROWS
    instruments: int = 120
    rate: float = 100.0
    fill: int = 20_000
    budget_ms: float = 100.0
    ceiling_ms: float | None = None

    def options(self) -> list[str]:
        """Its options of the command line."""
        words = ["--backend", self.backend.value, "--layout", self.layout.value, "--rate", f"{self.rate:g}"]
        words += ["--instruments", str(self.instruments), "--fill", str(self.fill), "--budget", f"{self.budget_ms:g}"]
        return words + ([] if self.ceiling_ms is None else ["--ceiling", f"{self.ceiling_ms:g}"])


@asynccontextmanager
async def throwaway_daemon(
    setup: Throwaway, folder: Path, say: Callable[[str], None], stop: asyncio.Event
) -> AsyncIterator[Reach]:
    """Set it up, and leave no process behind.

    folder: an empty one. say: shows what is being done. stop: gives up while it is being set up.

    Raises:
        ServerNotInstalled, StoreError: there is no such server here, or it does not start.
        DrillFailed: the daemon does not start.
        CommandFailed: the sender ended by itself, or `stop` was set.
    """
    say("starting the database")
    server = KINDS[setup.backend].throwaway_server(folder / "server")
    try:
        dsn = await asyncio.to_thread(server.start)
        port, api_port = free_port(), free_port()
        file = folder / "interference.toml"
        file.write_text(_configuration(setup, dsn, port, api_port), encoding="utf-8")
        await store_calibrations(load_config(file), [Key(0, 0)])
        daemon = DaemonProcess(file, folder, api_port=api_port)
        say("starting the daemon")
        try:
            await daemon.start()
            say(f"storing {setup.fill:,} triggers to read")
            await _fill(setup, port, folder, stop)
            if stop.is_set():
                raise CommandFailed("stopped before anything was measured; nothing stays")
            sender = await Child.start("sender", _sender(port, setup.rate, setup.fill + 1), folder / "sender.log")
            try:
                yield Reach(url=daemon.url, token=stored_token(folder / "state"))
                if not sender.running:
                    raise CommandFailed(sender.ending())
            finally:
                await sender.stop()
            await daemon.stop()
        finally:
            await daemon.close()
    finally:
        await asyncio.to_thread(server.stop)


def _configuration(setup: Throwaway, dsn: str, port: int, api_port: int) -> str:
    text = CONFIGURATION.format(
        group=GROUP,
        instruments=setup.instruments,
        channels=", ".join(f'{{ name = "{name}" }}' for name in BUTTONS),
        port=port,
        api_port=api_port,
        dsn=json.dumps(dsn),
        layout=setup.layout.value,
        budget_ms=setup.budget_ms,
    )
    return text if setup.ceiling_ms is None else text + GOVERNOR.format(ceiling_ms=setup.ceiling_ms)


async def _fill(setup: Throwaway, port: int, folder: Path, stop: asyncio.Event) -> None:
    """Store triggers as fast as possible; back when they are committed, or when `stop` is set."""
    if not setup.fill or stop.is_set():
        return
    more = ["--triggers", str(setup.fill), "--finish-timeout-s", "600"]
    child = await Child.start("sender", [*_sender(port, 0, 1), *more], folder / "fill.log")
    waits = [asyncio.ensure_future(each) for each in (child.ended(), stop.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await child.stop()
    if child.exit_code and not stop.is_set():
        raise CommandFailed(child.ending())


def _sender(port: int, rate: float, first: int) -> list[str]:
    words = ["--port", str(port), "--group", GROUP, "--rate", f"{rate:g}", "--first-trigger", str(first)]
    return [sys.executable, "-m", "daemon", "simulate", *words]

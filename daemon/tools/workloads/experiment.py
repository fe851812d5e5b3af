"""An experiment on a daemon, over its API, as a terminal shows it; the daemon may be a throw-away one."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from rich.console import Console

from backends.kinds import KINDS
from backends.throwaway.base import free_port
from daemon.client.api.asking import DaemonGone, ask
from daemon.client.api.reach import Reach
from daemon.core.configuration import load_config
from daemon.core.configuration.api_token import stored_token
from daemon.core.outcome import CommandFailed
from daemon.core.process.children import Child
from daemon.tools.conditions.calibrations import store_calibrations
from daemon.tools.console import ProgressBar
from daemon.tools.drill.machine import DaemonProcess
from schemas.api.interference import Block, Experiment, ExperimentId, Experiments, Record
from schemas.api.status import ExperimentStatus
from schemas.batch import Layout
from schemas.checking.dsn import Backend
from schemas.conditions.calibration import BUTTONS
from schemas.conditions.intervals import Key
from schemas.states import ExperimentPhase

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


PATH = "/api/v1/interference"
PATIENCE_S = 60.0
LOOK_S = 0.5
PHASES = {
    ExperimentPhase.WARM_UP: "warming up",
    ExperimentPhase.WRITE_ONLY: "write only",
    ExperimentPhase.WRITE_AND_READ: "write and read",
    ExperimentPhase.REPORTING: "computing the report",
}


async def follow(found: Reach, settings: Experiment, console: Console, stop: asyncio.Event) -> tuple[Record, str]:
    """Start an experiment, show how far it is, and return its record and its report.

    stop: ends it early; what was measured comes back all the same.

    Raises:
        CommandFailed: the daemon refuses, is gone, or the experiment failed.
    """
    try:
        async with found.client(PATIENCE_S) as client:
            answer = await ask(client, "POST", PATH, settings.model_dump(mode="json"))
            name = ExperimentId.model_validate_json(answer.content).id
            async with _ended_with_us(client):
                known, blocks = await _watch(client, console, stop)
            record = Record.model_validate_json((await ask(client, "GET", f"{PATH}/{name}")).content)
            # What ended with the experiment, between two looks.
            for block in record.blocks[known:]:
                console.print(_line(block, blocks), highlight=False)
            if record.result is None:
                raise CommandFailed(
                    f"experiment {name} has no result: {record.problem or 'see the events of the daemon'}"
                )
            return record, (await ask(client, "GET", f"{PATH}/{name}/report")).text
    except DaemonGone as gone:
        raise CommandFailed(str(gone)) from None


@contextlib.asynccontextmanager
async def _ended_with_us(client: httpx.AsyncClient) -> AsyncIterator[None]:
    """Let no experiment go on that nobody waits for any more."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(DaemonGone):
            await ask(client, "DELETE", PATH)
        raise


async def _watch(client: httpx.AsyncClient, console: Console, stop: asyncio.Event) -> tuple[int, int]:
    """Show blocks until the experiment is over; return how many were shown, and how many there were to be."""
    known = planned = 0
    left_s: float | None = None
    with ProgressBar(console, "waiting for the readers", seconds_left=lambda: left_s) as bar:
        while True:
            answer = await ask(client, "GET", f"{PATH}?past=false&after=1000000000&blocks={known}")
            found = Experiments.model_validate_json(answer.content)
            status = found.running
            if status is None:
                return known, planned
            planned = status.blocks
            blocks = [] if found.live is None else found.live.blocks
            known += len(blocks)
            for block in blocks:
                console.print(_line(block, status.blocks), highlight=False)
            left_s = None if status.phase is ExperimentPhase.REPORTING else status.left_s
            bar.show(_doing(status), f"{known}/{status.blocks}", done=known, total=status.blocks)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_S)
            if stop.is_set():
                bar.show("stopping", f"{known}/{status.blocks}", done=known, total=status.blocks)
                await _stop(client)


async def _stop(client: httpx.AsyncClient) -> None:
    """Stop it; where it ended just now there is nothing left to stop."""
    try:
        await ask(client, "DELETE", PATH)
    except DaemonGone:
        if (await ask(client, "GET", f"{PATH}?past=false")).json()["running"] is not None:
            raise


def _line(block: Block, blocks: int) -> str:
    readers = f"{block.readers if block.kind == 'B' else 'no'} readers added"
    p99 = "nothing committed" if block.p99_ms is None else f"p99 {block.p99_ms:.3g} ms"
    cut = "" if block.counts else ", left out" if block.whole else ", cut short"
    return f"{block.number:>3}/{blocks} {block.kind} {readers:<16} {p99}, {block.rate:,.1f} triggers/s{cut}"


def _doing(status: ExperimentStatus) -> str:
    phase = PHASES[status.phase]
    return f"{phase}, {status.readers} readers" if status.phase is ExperimentPhase.WRITE_AND_READ else phase

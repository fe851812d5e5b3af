"""An experiment on a running daemon, over its API, as a terminal shows it."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx
from rich.console import Console

from daemon.client.api.asking import DaemonGone, ask
from daemon.client.api.reach import Reach
from daemon.core.outcome import CommandFailed
from daemon.tools.console.progress import ProgressBar
from schemas.api.interference import Block, Experiment, ExperimentId, Experiments, Record
from schemas.api.status import ExperimentStatus
from schemas.states import ExperimentPhase

PATH = "/api/v1/interference"
PATIENCE_S = 60.0
LOOK_S = 0.5
PHASES = {
    ExperimentPhase.WARM_UP: "warming up",
    ExperimentPhase.WRITE_ONLY: "write only",
    ExperimentPhase.WRITE_AND_READ: "write and read",
    ExperimentPhase.REPORTING: "computing the report",
}


@contextmanager
def stopped_by_signal() -> Iterator[asyncio.Event]:
    """Set by Ctrl-C and SIGTERM meanwhile, which then end nothing by themselves."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


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

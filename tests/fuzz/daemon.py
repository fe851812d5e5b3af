"""Fuzz a daemon in a process of its own, over TCP, UDP, HTTP and WebSocket, with an honest sender beside it.

The honest sender owns most instruments of a group, and has an epoch and a session. Hostile processes do what a seed
says (`tests.fuzz.hostile`), each from an address of its own. They may send anything but readings of the honest
instruments: the protocol knows no rights of instruments. Every honest reading has to be acknowledged in time, and to be
in the database once, as sent.
"""

import asyncio
import multiprocessing
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import numpy as np
import psutil

from backends.throwaway.postgresql import ThrowawayPostgresql
from daemon.client.sender import Sender, SenderError
from schemas.readings import Array
from schemas.wire import ProtocolError
from tests.fuzz.hostile import BPM, CONFIG, HONEST, TIMEOUT_S, Target, attack
from tests.support.processes import Running, running, triggerlog
from tests.support.servers import server_folder

WITHIN_S = TIMEOUT_S + 5.0
"""Within what time a reading has to be acknowledged unless asked otherwise."""
PERIOD_S = 0.02
EPOCH_S = 12.0
"""The honest sender restarts its timing system after this time, and begins a new session every second time."""
GROWTH_MIB = 400.0
"""Held for the store: 256 MiB at most; kernel and allocator add some."""
LINES_A_SECOND = 10.0
HOSTILE_PROCESSES = 2


@dataclass(kw_only=True)
class Result:
    """within_s: for an acknowledgement. steps: of hostile processes. readings, slowest_s: of the honest sender."""

    seed: int
    within_s: float = WITHIN_S
    seconds: float = 0.0
    steps: int = 0
    readings: int = 0
    slowest_s: float = 0.0
    growth_mib: float = 0.0
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.seconds:.0f} s, {self.steps:,} hostile steps, {self.readings:,} honest readings, "
            f"slowest acknowledgement {self.slowest_s:.2f} s, memory {self.growth_mib:+.0f} MiB, "
            f"{len(self.findings)} findings"
        )


@contextmanager
def attacked(target: Target, result: Result, context: Any) -> Iterator[None]:
    """Let the hostile processes run during the block."""
    stop, steps, found = context.Event(), context.Value("q", 0), context.Queue()
    processes = [
        context.Process(target=attack, args=(number, result.seed, target, stop, steps, found), daemon=True)
        for number in range(HOSTILE_PROCESSES)
    ]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        stop.set()
        while not found.empty():
            result.findings.append(found.get())
        for process in processes:
            process.join(60)
            if process.exitcode:
                result.findings.append(f"a hostile process ended with {process.exitcode}: a defect of the fuzzer")
        result.steps = steps.value


# --- honest -------------------------------------------------------------------------------------------------------


class HonestSender:
    """Sends a trigger every PERIOD_S, and notes when each reading is acknowledged."""

    def __init__(self, port: int, target: Target, result: Result, rng: random.Random) -> None:
        self._port = port
        self._target = target
        self._result = result
        self._rng = rng
        self.sent: list[Array] = []
        self.has_begun = asyncio.Event()  # its first run: before, whoever comes first says where that is

    async def run(self, goes_on: Callable[[], bool]) -> None:
        """Send while `goes_on`, an epoch after the other, and wait for the last acknowledgement."""
        epoch = 0
        while goes_on():
            async with await self._connected() as sender:
                for _ in range(2):
                    epoch += 1
                    await self._send_epoch(sender, epoch, goes_on)

    async def _connected(self) -> Sender:
        return await Sender.connect(
            "127.0.0.1",
            self._port,
            "bpm",
            sender="honest",
            reconnect=True,
            timeout_s=self._result.within_s,
            rng=self._rng,
        )

    async def _send_epoch(self, sender: Sender, epoch: int, goes_on: Callable[[], bool]) -> None:
        waiting: deque[tuple[int, float]] = deque()
        began, trigger = time.monotonic(), 0
        while waiting or (goes_on() and time.monotonic() < began + EPOCH_S):
            if goes_on() and time.monotonic() < began + EPOCH_S:
                trigger += 1
                block = self._block(epoch, trigger)
                await sender.send(block)
                self.sent.append(block)
                waiting.append((sender.sent, time.monotonic()))
                self._target.epoch.value, self._target.trigger.value = epoch, trigger
            await asyncio.sleep(PERIOD_S)
            self._look(sender, waiting, epoch)

    def _look(self, sender: Sender, waiting: deque[tuple[int, float]], epoch: int) -> None:
        now = time.monotonic()
        while waiting and waiting[0][0] <= sender.acknowledged:
            self._result.slowest_s = max(self._result.slowest_s, now - waiting.popleft()[1])
            self.has_begun.set()
        if waiting and now - waiting[0][1] > self._result.within_s:
            late = f"{len(waiting)} triggers of epoch {epoch} are not acknowledged after {now - waiting[0][1]:.1f} s"
            raise SenderError(late)

    def _block(self, epoch: int, trigger: int) -> Array:
        block = np.zeros(HONEST, BPM.record)
        block["instrument"] = np.arange(HONEST)
        block["epoch"], block["trigger"], block["time_ns"] = epoch, trigger, time.time_ns()
        block["x"], block["y"] = trigger + np.arange(HONEST) / 8, self._rng.random()
        return block


async def compare(dsn: str, sent: Array) -> list[str]:
    """Compare what was sent with what is stored of the honest instruments."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            f"SELECT trigger_id, instrument, time_ns, x, y, run FROM triggerlog.bpm WHERE instrument < {HONEST}"
        )
    finally:
        await connection.close()
    stored = sorted(tuple(row)[:5] for row in rows)
    expected = sorted(
        zip(*(sent[name].tolist() for name in ("trigger", "instrument", "time_ns", "x", "y")), strict=True)
    )
    if stored == expected:
        return []
    missing, more = set(expected) - set(stored), set(stored) - set(expected)
    return [
        f"{len(sent)} readings sent, {len(stored)} stored, {len(stored) - len(set(stored))} of them twice; "
        f"{len(missing)} missing {sorted(missing)[:3]}, {len(more)} that nobody sent {sorted(more)[:3]}"
    ]


def honest_letters(file: Path, to: Path) -> list[str]:
    """Look for readings of the honest instruments among the dead letters."""
    if triggerlog("dead-letters", "export", str(file), "--group", "bpm", "--to", str(to)).returncode or not to.exists():
        return []
    readings = np.load(to)["bpm/readings"]
    found = readings[readings["instrument"] < HONEST]
    return [f"{len(found)} honest readings are dead letters: {found[:3].tolist()}"] if len(found) else []


# --- both ---------------------------------------------------------------------------------------------------------


def target_of(run: Running, context: Any) -> Target:
    """Read where the daemon listens, and what its API has."""
    found = run.until_said(r"taking readings at \S+:(\d+), \S+:(\d+); API at (http://\S+:(\d+))")
    document = httpx.get(f"{found[3]}/openapi.json", trust_env=False, timeout=60).raise_for_status().json()
    requests = tuple((method.upper(), path) for path, methods in document["paths"].items() for method in methods)
    return Target(
        tcp=int(found[1]),
        udp=int(found[2]),
        api=int(found[4]),
        requests=requests,
        epoch=context.Value("q", 0),
        trigger=context.Value("q", 0),
    )


async def send_under_attack(target: Target, pid: int, result: Result, seconds: float, context: Any) -> Array:
    """Let the honest sender begin, then the hostile ones; return what the honest one sent."""
    honest = HonestSender(target.tcp, target, result, random.Random(result.seed))
    process, began = psutil.Process(pid), time.monotonic()
    sending = asyncio.create_task(honest.run(lambda: time.monotonic() < began + seconds))
    try:
        async with asyncio.timeout(60):
            await asyncio.wait({sending, asyncio.ensure_future(honest.has_begun.wait())}, return_when="FIRST_COMPLETED")
        before = process.memory_info().rss
        with attacked(target, result, context):
            while not sending.done():
                await asyncio.wait({sending}, timeout=0.5)
                result.growth_mib = max(result.growth_mib, (process.memory_info().rss - before) / 2**20)
        await sending
    except (SenderError, ProtocolError, TimeoutError, psutil.NoSuchProcess) as error:
        sending.cancel()
        result.findings.append(f"the honest sender: {type(error).__name__}: {error}")
    result.seconds = time.monotonic() - began
    return np.concatenate(honest.sent) if honest.sent else np.zeros(0, BPM.record)


def fuzz_daemon(seconds: float, seed: int, within_s: float, log: Path) -> Result:
    """Attack a daemon for so long; log: a file for what the daemon said."""
    result, context = Result(seed=seed, within_s=within_s), multiprocessing.get_context("spawn")
    with server_folder() as folder:
        server = ThrowawayPostgresql(folder / "server")
        dsn = server.start()
        try:
            file = folder / "beam.toml"
            file.write_text(CONFIG.replace("{dsn}", dsn))
            with running("run", str(file)) as run:
                sent = asyncio.run(
                    send_under_attack(target_of(run, context), run.process.pid, result, seconds, context)
                )
                code = run.end() if run.process.poll() is None else run.process.returncode
            letters = triggerlog("dead-letters", "list", str(file)).stdout
            result.readings = len(sent)
            result.findings += [
                *asyncio.run(compare(dsn, sent)),
                *honest_letters(file, folder / "letters.npz"),
                *judged(run.said, code, result),
            ]
        finally:
            server.stop()
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"{run.said}{letters}")
    return result


def judged(said: str, code: int | None, result: Result) -> list[str]:
    """Return what is wrong with how the daemon ended, what it logged and how it grew."""
    lines = said.count("\n") / max(1.0, result.seconds)
    return [
        *([f"the daemon ended with {code}"] if code else []),
        *([f"an exception in the log: {said[said.index('Traceback') :][:3000]}"] if "Traceback" in said else []),
        *([f"{lines:.0f} lines of log a second"] if lines > LINES_A_SECOND else []),
        *([f"its memory grew by {result.growth_mib:.0f} MiB"] if result.growth_mib > GROWTH_MIB else []),
    ]

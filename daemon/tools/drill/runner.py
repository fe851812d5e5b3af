"""Runs drills one after the other, each with a daemon, a state folder and a schema of its own."""

import asyncio
import math
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.base import StoreError
from daemon.client.sender import SenderError
from daemon.tools.drill.count import Count
from daemon.tools.drill.drills import Drill
from daemon.tools.drill.machine import Machine
from daemon.tools.drill.process import DrillFailed
from daemon.tools.drill.result import Result
from daemon.tools.drill.system import DrillSystem, Target, running_system
from schemas.wire import ProtocolError

BYTES_A_READING = 60
"""About the size of a reading in the journal."""
LEAST_KIB = 128
ABSENT = 0.02
"""The part of the readings that is never taken, so that triggers are incomplete in every drill."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The size of the load and of the failures.

    rate: triggers a second. seconds: how long a failure lasts. seed: of the random times.
    """

    instruments: int = 120
    rate: float = 100.0
    seconds: float = 4.0
    seed: int = 1


async def run_drills(drills: Sequence[Drill], target: Target, folder: Path, options: Options) -> AsyncIterator[Result]:
    """Carry out drills, and give the result of each.

    Args:
        drills: in order.
        target: its server, if it has one, runs before each drill and after it.
        folder: each drill gets one in it.
        options: how hard.
    """
    for number, drill in enumerate(drills):
        if drill.needs_server and target.server is None:
            yield Result(
                name=drill.name, title=drill.title, skipped="it stops the server, which is not the drill's own"
            )
            continue
        own = folder / drill.name
        own.mkdir()
        yield await _carried_out(drill, target, own, options, f"drill_{int(time.time())}_{number}")
        if target.server is not None:
            # As after a drill that failed in its middle.
            target.server.thaw()
            await asyncio.to_thread(target.server.start)


async def _carried_out(drill: Drill, target: Target, folder: Path, options: Options, schema: str) -> Result:
    machine = Machine(
        instruments=options.instruments,
        rate=options.rate,
        start_ns=time.time_ns(),
        absent=ABSENT,
        **drill.machine(options.seconds, options.rate),
    )
    settings: dict[str, dict[str, Any]] = {name: dict(values) for name, values in drill.settings.items()}
    kib = _disk_kib(options)
    with small_disk(folder / "state", kib) if drill.disk else nullcontext() as no_disk:
        if drill.disk:
            settings |= _small(kib, has_disk=no_disk is None)
        system: DrillSystem | None = None
        count: Count | None = None
        problem, situation = None, ""
        try:
            async with running_system(
                target, machine, folder, schema=schema, settings=settings, seed=options.seed
            ) as system:
                if no_disk is not None:
                    system.notes.append(f"a journal of {kib} KiB in the place of a disk: {no_disk}")
                await drill.act(system, options.seconds)
                count = await system.finish()
        except (DrillFailed, SenderError, ProtocolError, StoreError) as error:
            problem, situation = str(error), "\n".join(getattr(error, "__notes__", ()))
            if system is not None:
                count = await _counted(system)
    if system is None:
        return Result(name=drill.name, title=drill.title, problem=problem, situation=situation)
    if target.server is None:
        await system.remove()
    return Result(
        name=drill.name,
        title=drill.title,
        sent=system.load.sent,
        acknowledged=system.load.acknowledged,
        refused=system.load.refused,
        count=count,
        failures=drill.failures,
        recoveries=tuple(system.recoveries),
        problem=problem,
        situation=situation,
        notes=tuple(system.notes),
    )


def _disk_kib(options: Options) -> int:
    """The size of a disk that is full about when the time of the drill is over."""
    return max(LEAST_KIB, math.ceil(options.rate * options.instruments * BYTES_A_READING * options.seconds / 2**10))


def _small(kib: int, *, has_disk: bool) -> dict[str, dict[str, Any]]:
    """Settings with which the disk is soon full, and memory with it."""
    mib = kib / 2**10
    journal = {"segment_mib": 1.0} if has_disk else {"segment_mib": 1.0, "max_mib": mib}
    return {"journal": journal, "committer": {"max_waiting_mib": mib / 2, "max_batch_mib": mib / 4}}


async def _counted(system: DrillSystem) -> Count | None:
    """Count also after a drill that failed: it may have lost readings."""
    try:
        return await system.count()
    except StoreError:
        return None


@contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[str | None]:
    """Mount a file system of so many KiB at an empty folder meanwhile; give None, or why that could not be."""
    folder.mkdir()
    if os.geteuid() != 0:
        yield "only root may mount one"
        return
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=0755", "triggerlog-drill", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
    if result.returncode:
        yield result.stderr.strip() or "mount refuses"
        return
    try:
        yield None
    finally:
        # A process may still have it open; it is unmounted when the last one closes it.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S603, S607

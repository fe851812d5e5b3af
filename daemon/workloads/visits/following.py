"""Runs the process of visits, and hands on what it tells."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from daemon.core.process.children import Child
from daemon.workloads.visits.messages import HEARD, LONGEST_LINE, STOP, Failed, Message, Spec, read_message
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig


class VisitsFailed(Exception):
    """The process of visits ended before its time; the message is one line that says why."""


class VisitsRefused(VisitsFailed):
    """It said itself why it cannot go on: starting it again would not help."""


def spec_of(
    database: DatabaseConfig,
    visits: VisitsConfig,
    *,
    state_dir: Path,
    password: str | None = None,
    until: int | None = None,
    gives_way: bool = False,
) -> Spec:
    """What to tell a process of visits that ends with this one."""
    return Spec(
        parent=os.getpid(),
        database=database,
        password=password,
        state_dir=str(state_dir),
        visits=visits,
        until=until,
        gives_way=gives_way,
    )


async def follow(spec: Spec, log: Path, *, stop: asyncio.Event | None = None) -> AsyncGenerator[Message, None]:
    """Run the process of visits to its end, and yield its messages; it goes no further than you take them.

    Args:
        spec: what it is told; `spec_of` makes one.
        log: file that gets what else it says.
        stop: set it, and the process ends after the visit that runs.

    Close the generator (`contextlib.aclosing`) to end the process at once.

    Raises:
        VisitsFailed: it ended before its time; VisitsRefused where it would again.

    """
    process = await Child.start(
        "process of visits", [sys.executable, "-m", "daemon.workloads.visits"], log, piped=LONGEST_LINE
    )
    stopping = asyncio.create_task(_stop(process, stop)) if stop is not None else None
    try:
        process.write_line(spec.line())
        while line := await process.read_line():
            message = read_message(line)
            if isinstance(message, Failed):
                raise VisitsRefused(message.failed)
            yield message
            process.write_line(HEARD)
        await process.ended()
        if process.exit_code:
            raise VisitsFailed(process.ending())
    finally:
        if stopping is not None:
            stopping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await stopping
        await process.stop()


async def _stop(process: Child, stop: asyncio.Event) -> None:
    await stop.wait()
    process.write_line(STOP)

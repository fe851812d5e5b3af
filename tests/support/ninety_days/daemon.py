"""The daemon in this process, by a clock that is given: what takes it days takes a test seconds."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from daemon.core.configuration import load_config
from daemon.core.monitoring.events import Events
from daemon.core.outside import Clock, Outside
from daemon.service import Service
from schemas.states import DaemonState
from tests.support.pipelines import eventually


@asynccontextmanager
async def serving(file: Path, clock: Clock) -> AsyncIterator[Service]:
    """Run the daemon of a configuration until the end of the block, and end it in order; by then it commits."""
    service = Service(load_config(file), outside=replace(Outside.real(), clock=clock), events=Events())
    stop = asyncio.Event()

    async def serve() -> None:
        async with asyncio.TaskGroup() as tasks:
            await service.serve(tasks, stop, lambda _: None)

    running = asyncio.create_task(serve())
    try:
        await eventually(lambda: running.done() or service.reporter.state is DaemonState.RUNNING)
        if not running.done():
            yield service
    finally:
        stop.set()
        await running
        gc.unfreeze()  # this process goes on

"""The frame of a workload: one run at a time, and the next as soon as one is over."""

import asyncio

from daemon.core.monitoring.events import Events
from daemon.workloads.frame.runner import Run, Runner
from schemas.states import RunState


async def test_a_run_that_is_over_and_being_archived_is_waited_for() -> None:
    """Who sees that it is over may order the next one."""
    runner, archived = Runner[Run](Events()), asyncio.Event()
    runner.run = run = Run("first")
    runner._start(archived.wait(), "a workload")
    assert await runner._others_end() is run
    run.state = RunState.STOPPED
    waiting = asyncio.create_task(runner._others_end())
    await asyncio.sleep(0)
    assert not waiting.done()
    archived.set()
    assert await waiting is None

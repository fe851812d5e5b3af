"""The frame of a workload: one run at a time, and the next as soon as one is over."""

import asyncio

import pytest

from daemon.core.monitoring.events import Events
from daemon.workloads.frame.runner import Run, Runner, WorkloadBusy
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


class Slow(Runner[Run]):
    """Needs time to begin a run, and goes on with it until it is cancelled."""

    def __init__(self) -> None:
        super().__init__(Events())
        self.prepared = asyncio.Event()

    async def start(self, name: str) -> None:
        async with self._starting:
            assert await self._others_end() is None
            await self.prepared.wait()
            self.run = Run(name)
            self._start(asyncio.Event().wait(), name)


async def test_an_order_that_waits_while_the_daemon_ends_is_refused() -> None:
    """Nobody would end what it began."""
    runner, archived = Slow(), asyncio.Event()
    runner.run = run = Run("first")
    run.state = RunState.STOPPED

    async def archive() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await archived.wait()

    runner._start(archive(), "a workload")
    order = asyncio.create_task(runner.start("second"))
    await asyncio.sleep(0)
    ending = asyncio.create_task(runner.end())
    await asyncio.sleep(0)
    archived.set()
    with pytest.raises(WorkloadBusy, match="stopping"):
        await order
    await ending
    assert runner.run is run


async def test_a_run_that_begins_while_the_daemon_ends_is_ended() -> None:
    runner = Slow()
    order = asyncio.create_task(runner.start("late"))
    await asyncio.sleep(0)
    ending = asyncio.create_task(runner.end())
    await asyncio.sleep(0)
    runner.prepared.set()
    await order
    assert runner.running is not None
    await ending
    assert runner.running is None

"""Runs of a workload, one at a time: what every run has, and who starts and ends it in the daemon."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Generic, TypeVar

from daemon.core.monitoring.events import Events
from schemas.states import RunState


class WorkloadRefused(Exception):
    """A workload cannot be started.

    field: of its settings, by its path; empty where it is about none of them. problem, fix: what is wrong, and what to
    do about it.
    """

    def __init__(self, problem: str, fix: str = "", field: str = "") -> None:
        self.problem, self.fix, self.field = problem, fix, field
        super().__init__(f"{field}: " * bool(field) + problem + f"; {fix}" * bool(fix))


class WorkloadBusy(WorkloadRefused):
    """What is in its way goes away by itself, or can be stopped: another run, or the daemon is starting."""


class Run:
    """A run of a workload.

    name: its id. state: how far it is. problem: why it ended early, or what it waits for, in words for people alone.
    """

    def __init__(self, name: str, began_ns: int | None = None) -> None:
        self.name = name
        self.state = RunState.STARTING
        self.problem: str | None = None
        self.began_ns = began_ns or time.time_ns()


R = TypeVar("R", bound=Run)


class Runner(Generic[R]):
    """Holds the task of one run, and says it when that ends in a defect.

    run: the one under way, or the last since the daemon started.
    """

    def __init__(self, events: Events) -> None:
        self.run: R | None = None
        self._events = events
        self._starting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._is_open = self._is_ending = False

    @property
    def running(self) -> R | None:
        """The run that is under way."""
        return self.run if self._task is not None and not self._task.done() else None

    async def _others_end(self) -> R | None:
        """The run that is in the way of another one; one that is over is being archived, and is waited for.

        Raises:
            WorkloadBusy: the daemon ends by now.
        """
        while self.running is not None and self.running.state.is_over and self._task is not None:
            await asyncio.wait([self._task])
        if self._is_ending:
            self._require_open()
        return self.running

    async def end(self) -> None:
        """The daemon ends: the run ends at once, and its task keeps what there is of it."""
        self._is_ending = True
        await self._cancel()
        async with self._starting:  # the order that had its turn has begun a run, or is refused
            await self._cancel()

    async def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _require_open(self) -> None:
        if not self._is_open or self._is_ending:
            raise WorkloadBusy("the daemon is starting or stopping", "try again later")

    def _start(self, work: Coroutine[None, None, None], name: str) -> None:
        self._task = asyncio.create_task(work, name=name)
        self._task.add_done_callback(self._note_defect)

    def _note_defect(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        reason = f"{type(error).__name__}: {error}"
        self._events.error(f"{task.get_name()} ended in a defect of triggerlog: {reason}")
        if self.run is not None:
            self.run.state, self.run.problem = RunState.FAILED, reason

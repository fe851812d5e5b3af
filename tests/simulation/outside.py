"""Clock, disk, randomness and threads of one life (`daemon.core.outside.Outside`), in virtual time."""

import asyncio
import math
import random
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from daemon.core.outside import Instant, Outside
from daemon.core.outside.workers import Step
from tests.simulation.disk import Drive, SimulatedDisk
from tests.simulation.loop import Life, VirtualLoop

P = ParamSpec("P")
T = TypeVar("T")


class SimulatedClock:
    """The loop's time, as the daemon's node has it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> Instant:
        return Instant(self._loop.node_utc_ns, self._loop.now_ns)


class SimulatedWorkers:
    """In place of threads: what blocks is called on the loop, a moment later."""

    def __init__(self, loop: VirtualLoop, drive: Drive, rng: random.Random) -> None:
        self._loop, self._drive, self._rng = loop, drive, rng

    def latency_s(self) -> float:
        """How long it takes until a thread runs, and its disk has done its work."""
        return 0.00005 + 0.002 * self._rng.random() + self._drive.delay_s * self._rng.random()

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        await asyncio.sleep(self.latency_s())
        result = function(*args, **kwargs)
        await asyncio.sleep(0)
        return result

    def begin(self, name: str, step: Step) -> "SimulatedStepper":
        return SimulatedStepper(self, self._loop, step)


class SimulatedStepper:
    """Calls a step, one call at a time, each a moment after it was woken or is due."""

    def __init__(self, workers: SimulatedWorkers, loop: VirtualLoop, step: Step) -> None:
        self._workers, self._loop, self._step = workers, loop, step
        self._ended = asyncio.Event()
        self._handle: asyncio.TimerHandle | None = None
        self._plan(0.0)

    def wake(self) -> None:
        if not self._ended.is_set():
            self._plan(0.0)

    async def ended(self) -> None:
        await self._ended.wait()

    def _plan(self, after_s: float) -> None:
        when = self._loop.time() + after_s + self._workers.latency_s()
        if self._handle is not None:
            if self._handle.when() <= when:
                return
            self._handle.cancel()
        self._handle = self._loop.call_at(when, self._call)

    def _call(self) -> None:
        self._handle = None
        delay = self._step()
        if delay is None:
            self._ended.set()
            if self._handle is not None:
                self._handle.cancel()
        elif not math.isinf(delay):
            self._plan(delay)


def outside_of(loop: VirtualLoop, drive: Drive, life: Life, rng: random.Random) -> Outside:
    """What a life has in place of its machine."""
    return Outside(
        clock=SimulatedClock(loop),
        disk=SimulatedDisk(drive, life),
        rng=random.Random(rng.random()),
        workers=SimulatedWorkers(loop, drive, random.Random(rng.random())),
    )

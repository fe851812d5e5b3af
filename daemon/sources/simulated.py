"""Simulated instruments inside the daemon, to try it out without any hardware."""

import asyncio
import contextlib
import functools
import time

import numpy as np

from daemon.core.supervision.fail_stop import fail_stop
from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.intake import Subscriber
from daemon.sources.base import Intakes
from schemas.api.status import SourceStatus
from schemas.config import SimulatedSource as SimulatedConfig
from schemas.readings import Array, InstrumentGroup

STEP_S = 0.005
"""Triggers of so long a stretch are made at once, when the rate is higher than one in it."""


@functools.cache
def epoch_of_process() -> int:
    """The epoch of all simulated instruments of this process: when the first of them began, in s since 1970."""
    return int(time.time())


class SimulatedSource:
    """Makes the readings of one group, trigger after trigger.

    epoch: of their timing system; None is that of the process.
    """

    def __init__(self, config: SimulatedConfig, intakes: Intakes, *, epoch: int | None = None) -> None:
        self._config = config
        self._epoch = epoch
        self._intake = intakes[config.group]
        self._random = np.random.default_rng(config.seed)
        self._task: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._received = 0
        self._intake.subscribe(Subscriber(full=self._full))
        self._full(self._intake.is_full)

    async def start(self) -> None:
        """Begin with trigger 1 of a new epoch, as a timing system does that was started with the daemon."""
        epoch = epoch_of_process() if self._epoch is None else self._epoch
        self._task = asyncio.create_task(self._run(epoch), name=f"simulated {self._config.group}")

    async def stop(self) -> None:
        """Make no more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def close(self) -> None:
        """Nothing is owed to anyone."""

    def status(self) -> SourceStatus:
        """How it does."""
        return SourceStatus(
            kind="simulated",
            address=self._config.group,
            connections=1,
            received=self._received,
            bytes=self._received * self._intake.group.record.itemsize,
            refused={},
            lost_datagrams=0,
        )

    def change(self, config: SimulatedConfig) -> None:
        """Nothing of it changes while it runs."""

    def parts(self) -> list[Part]:
        """Whether it is at work."""
        is_over = self._task is None or self._task.done()
        return [Part(name=f"the simulated instruments of group {self._config.group}", steps=0, is_busy=is_over)]

    @fail_stop()
    async def _run(self, epoch: int) -> None:
        trigger = 1
        loop = asyncio.get_running_loop()
        due = loop.time()
        at_once = max(1, round(self._config.rate * STEP_S))
        while True:
            await self._room.wait()
            await asyncio.sleep(max(0.0, due - loop.time()))
            block = make_block(self._intake.group, trigger, at_once, self._config.rate, self._random)
            block["epoch"] = epoch
            if self._config.missing:
                block = block[self._random.random(len(block)) >= self._config.missing]
            self._received += len(block)
            self._intake.receive(block)
            trigger += at_once
            # After a pause the clock of the simulation starts afresh: real triggers do not come all at once either.
            due = max(due + at_once / self._config.rate, loop.time() - 1.0)

    def _full(self, is_full: bool) -> None:
        if is_full:
            self._room.clear()
        else:
            self._room.set()


def make_block(group: InstrumentGroup, first: int, triggers: int, rate: float, random: np.random.Generator) -> Array:
    """Readings of whole triggers from now on: record dtype, shape (triggers * instruments,); values are noise."""
    block = np.zeros((triggers, group.size), group.record)
    block["trigger"] = np.arange(first, first + triggers)[:, None]
    block["instrument"] = np.arange(group.size)
    block["time_ns"] = time.time_ns() + (np.arange(triggers) * (1e9 / rate)).astype(np.int64)[:, None]
    for channel in group.channels:
        values = random.normal(100.0, 5.0, block.shape)
        block[channel.name] = values if channel.is_float else np.clip(values, 0, 127)
    return block.reshape(-1)

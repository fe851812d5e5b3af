"""Work on the disk beside the event loop: its steps, its signs of life, and what is tried again after it failed."""

import math

from daemon.core.outside import Stepper, Workers
from daemon.core.outside.workers import Step
from daemon.core.supervision.fail_stop import fail_stop
from daemon.core.supervision.progress_watch import Part

AGAIN_S = 1.0
"""After so long what failed is tried again: a full disk may have room by then."""


class Attempt:
    """Something that is tried again a while after it failed. problem: why it failed, until it does not."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self.not_before_s = -math.inf

    def failed(self, problem: str, now_s: float) -> None:
        """Take note that it failed, and why."""
        self.problem, self.not_before_s = problem, now_s + AGAIN_S

    def succeeded(self) -> None:
        """Take note that it did not fail."""
        self.problem, self.not_before_s = None, -math.inf


class Beside:
    """Calls a step beside the event loop, until it returns None.

    name: of the work, as `the journal's keeper`.
    """

    def __init__(self, workers: Workers, name: str, step: Step) -> None:
        self._workers = workers
        self._name = name
        self._step = step
        self._stepper: Stepper | None = None
        self._asked = self._answered = 0

    def start(self) -> None:
        """Let the steps begin."""
        self._stepper = self._workers.begin(self._name, self._call)

    def wake(self) -> None:
        """Have a step done soon; from any thread."""
        if self._stepper is not None:
            self._stepper.wake()

    async def ended(self) -> None:
        """Wait until the last step is done."""
        if self._stepper is not None:
            self._stepper.wake()
            await self._stepper.ended()

    def part(self, name: str) -> Part:
        """How the steps go, for the watchdog; asks for a sign of life, which the next look sees."""
        part = Part(name=name, steps=self._answered, is_busy=self._asked > self._answered)
        self._asked += 1
        self.wake()
        return part

    @property
    def asked(self) -> int:
        """How often a sign of life was asked for: what a step does answers those before it began."""
        return self._asked

    @property
    def is_asked(self) -> bool:
        """Whether a sign of life is wanted."""
        return self._asked > self._answered

    def answer(self, asked: int) -> None:
        """Give so many signs of life."""
        self._answered = asked

    @fail_stop()
    def _call(self) -> float | None:
        return self._step()

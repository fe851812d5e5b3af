"""What runs beside the event loop: calls that block, and work that goes on in steps."""

import asyncio
import math
import threading
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Step = Callable[[], float | None]
"""Does what is due, and may block. Returns after how many seconds it is to be called again at the latest (`math.inf`:
when it is woken), or None when it was the last. It must not raise."""


class Stepper(Protocol):
    """Calls a step again and again, one call at a time."""

    def wake(self) -> None:
        """Call the step soon, or once more if a call is under way; from any thread."""

    async def ended(self) -> None:
        """Wait until the last step has been done."""


class Workers(Protocol):
    """Runs what blocks."""

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that blocks, and wait for what it returns."""

    def begin(self, name: str, step: Step) -> Stepper:
        """Call a step from now on until it returns None."""


class ThreadWorkers:
    """Runs what blocks in threads."""

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread of the event loop's pool."""
        return await asyncio.to_thread(function, *args, **kwargs)

    def begin(self, name: str, step: Step) -> "ThreadStepper":
        """Call a step in a thread of its own."""
        return ThreadStepper(name, step)


class ThreadStepper:
    """A thread that calls a step."""

    def __init__(self, name: str, step: Step) -> None:
        self._step = step
        self._condition = threading.Condition()
        self._is_woken = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Call the step soon."""
        with self._condition:
            self._is_woken = True
            self._condition.notify()

    async def ended(self) -> None:
        """Wait until the last step has been done."""
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while (delay := self._step()) is not None:
            with self._condition:
                self._condition.wait_for(lambda: self._is_woken, None if math.isinf(delay) else delay)
                self._is_woken = False

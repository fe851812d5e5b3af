"""The failure domain of figures: status, alarms, forecasts, keepers, workloads and the API never end the daemon.

The data path has the opposite rule: an error there ends the process, and the next start recovers. Here an error is an
event with a count and a line of the status, and readings are logged all the same.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from daemon.core.monitoring.events import Events
from daemon.core.outcome import reason_of
from daemon.web.rates import Backoff
from schemas.states import Severity

AGAIN_FIRST_S, AGAIN_MOST_S = 1.0, 30.0
"""Pauses before work that failed is started again."""
SETTLED_S = 60.0
"""Work that has run for so long is well again."""
REPORT_EVERY_S = 600.0
"""Time between two events that the same figure is not available."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class Figures:
    """Runs what is for people, so that its errors go no further."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._failures: dict[str, tuple[str, int]] = {}
        self._reported: set[str] = set()

    @property
    def unavailable(self) -> dict[str, str]:
        """The figures that are not available now, and why."""
        return {name: f"{why} ({count:,} times)" for name, (why, count) in self._failures.items()}

    def ask(self, name: str, figure: Callable[[], T], otherwise: T) -> T:
        """Return a figure, or `otherwise` where computing it fails."""
        try:
            found = figure()
        except Exception as error:  # the readings are logged all the same
            self._failed(name, error)
            return otherwise
        self._works(name)
        return found

    async def keep_running(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]], *, ends: type[Exception] | tuple[()] = ()
    ) -> None:
        """Do some work until it ends by itself or is cancelled, and again after a pause where it fails.

        ends: what it may raise nevertheless.
        """
        backoff = Backoff(AGAIN_FIRST_S, AGAIN_MOST_S)
        while True:
            began_s = time.monotonic()
            settled = asyncio.get_running_loop().call_later(SETTLED_S, self._works, name)
            try:
                await work()
            except ends:
                raise
            except Exception as error:  # the readings are logged all the same
                self._failed(name, error)
            else:
                return
            finally:
                settled.cancel()
            if time.monotonic() - began_s >= SETTLED_S:
                backoff.reset()
            await backoff.pause()

    async def attempt(self, name: str, work: Callable[[], Coroutine[Any, Any, object]], within_s: float | None) -> None:
        """Do a part of the start or the end, which goes on without it where it fails or takes too long."""

        async def part() -> None:
            await work()

        task = asyncio.create_task(part(), name=name)
        done, _ = await asyncio.wait([task], timeout=within_s)
        if not done:
            task.cancel()
            task.add_done_callback(lambda late: late.cancelled() or late.exception())
            self._failed(name, TimeoutError(f"not done within {within_s:g} s"))
        elif not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._failed(name, error)

    def _failed(self, name: str, error: Exception) -> None:
        why = (reason_of(error) if isinstance(error, OSError) else "") or f"{type(error).__name__}: {error}"
        count = self._failures.get(name, ("", 0))[1] + 1
        self._failures[name] = why, count
        text = f"{name}: not available ({why}); readings are logged all the same"
        if self._events.seldom(Severity.ERROR, f"figure {name}", text, REPORT_EVERY_S):
            self._reported.add(name)
            if not isinstance(error, OSError):
                log.error("%s: a defect of triggerlog", name, exc_info=error)
        self._events.forget(f"figure {name}")  # how often it failed is recorded when it works again

    def _works(self, name: str) -> None:
        failed = self._failures.pop(name, None)
        if failed is not None and name in self._reported:
            self._reported.discard(name)
            self._events.info(f"{name}: available again, after {failed[1]:,} failures")

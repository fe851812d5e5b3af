"""The store, watched: opened as soon as it can be, and asked now and then how it is."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from backends.base import Store, StoreError, StoreUnavailable
from daemon.core.configuration.database import in_its_field, why_refused
from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed
from daemon.telemetry.store.report import StoreReport
from daemon.web.backoff import Backoff
from schemas.config import Config

EVERY_S = 5.0
"""Time between two questions; an idle daemon notices within it that the database is gone."""

T = TypeVar("T")

RETRY_FIRST_S = 0.25
RETRY_MOST_S = 1.0
"""Pauses between attempts to open it."""


class StoreWatch:
    """Keeps the report of the store up to date.

    looked: called after each answer.
    """

    def __init__(
        self, store: Store, report: StoreReport, config: Config, events: Events, looked: Callable[[], None]
    ) -> None:
        self._store = store
        self._report = report
        self._config = config
        self._events = events
        self._looked = looked
        self._refused: str | None = None

    async def open(
        self,
        stop: asyncio.Event,
        ask: Callable[[], Awaitable[T]],
        *,
        away: asyncio.Event,
        is_taking: Callable[[], bool],
    ) -> T | None:
        """Open the store and ask it, trying again while it is not available; None when `stop` came first.

        away: set when it does not answer. is_taking: whether readings are taken already. Then a store that cannot be
            used as configured is an alarm, and they wait until it can be: ending would lose those that come.

        Raises:
            CommandFailed: it cannot be used as configured.
        """
        backoff, is_open = Backoff(RETRY_FIRST_S, RETRY_MOST_S), False
        while not stop.is_set():
            try:
                if not is_open:
                    await self._store.open()
                    self._report.answered(await self._store.facts())
                    is_open = True
                return await ask()
            except StoreUnavailable as error:
                self._wait_for_it("the database is away", str(error))
                away.set()
            except StoreError as error:
                problem = in_its_field(await why_refused(self._store, error), self._config)
                if not is_taking():
                    raise CommandFailed(problem) from None
                self._wait_for_it("the database cannot be used", problem)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), backoff.next_s())
        return None

    def _wait_for_it(self, what: str, problem: str) -> None:
        if self._report.problem != problem:
            keeps = self._config.journal.max_mib > 0
            meanwhile = "readings are kept in the intake's log" if keeps else "no readings are taken yet"
            self._events.error(f"{what}, {meanwhile}: {problem}")
        self._report.failed(problem)

    async def run(self) -> None:
        """Ask it again and again, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self._look()

    async def _look(self) -> None:
        self._report.asked()
        try:
            self._report.answered(await self._store.facts())
        except StoreUnavailable as error:
            self._report.failed(str(error))
        except StoreError as error:
            # Readings may well be committed all the same; an operator has to know that the facts are old ones.
            if self._refused != str(error):
                self._events.warning(f"the database does not say how it is: {error}")
            self._refused = str(error)
        else:
            self._refused = None
            self._looked()

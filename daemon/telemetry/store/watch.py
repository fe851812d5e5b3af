"""The store, watched: opened as soon as it can be, and asked now and then how it is."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from backends.base import ConfigurationRefused, SchemaMismatch, Store, StoreError, StoreUnavailable
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
        refuse: Callable[[SchemaMismatch], str],
    ) -> T | None:
        """Open the store and ask it, trying again whatever is wrong; None when `stop` came first.

        away: set when it cannot be used yet, so that readings are taken meanwhile. is_taking: whether they are already.
            Then a configuration that is refused ends nothing, either: ending would lose what comes for other groups.
        refuse: called with what the database refuses: its groups take nothing more; returns what to do with what they
            have taken.

        Raises:
            CommandFailed: the configuration is refused, and nothing is taken.
        """
        backoff, is_open = Backoff(RETRY_FIRST_S, RETRY_MOST_S), False
        while not stop.is_set():
            try:
                if not is_open:
                    await self._store.open()
                    self._report.answered(await self._store.facts())
                    is_open = True
                return await ask()
            except StoreError as error:
                found = error if isinstance(error, StoreUnavailable) else await why_refused(self._store, error)
                is_refused = isinstance(found, ConfigurationRefused)
                problem = str(found) if isinstance(found, StoreUnavailable) else in_its_field(found, self._config)
                if isinstance(found, SchemaMismatch):
                    problem += refuse(found)
                if is_refused and not is_taking():
                    raise CommandFailed(problem) from None
                self._wait_for_it("the database is away" if found.is_away else "the database cannot be used", problem)
                away.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), backoff.next_s())
        return None

    def _wait_for_it(self, what: str, problem: str) -> None:
        if self._report.problem != problem:
            keeps = self._config.journal.max_mib > 0
            meanwhile = "readings are kept in the journal" if keeps else "no readings are taken yet"
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
        except StoreError as error:
            if error.is_away:
                self._report.failed(str(error))
                return
            # Readings may well be committed all the same; an operator has to know that the facts are old ones.
            if self._refused != str(error):
                self._events.warning(f"the database does not say how it is: {error}")
            self._refused = str(error)
        else:
            self._refused = None
            self._looked()

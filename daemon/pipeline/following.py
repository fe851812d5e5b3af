"""One group's pipeline follows its log from where the database is, and again when the database went back."""

import asyncio

from backends.base import Store, StoreError
from backends.ending import end_tasks
from daemon.core.supervision.fail_stop import fail_stop
from daemon.pipeline.announced import AnnouncedRuns
from daemon.pipeline.intake import Intake
from daemon.pipeline.pipeline import Pipeline
from daemon.pipeline.recovery import InStore, ask_store
from daemon.web.rates import Backoff
from schemas.config import Config

AGAIN_S = 5.0
"""The longest pause between two questions to a database that does not answer."""


class Following:
    """Commits what the log of a group holds, and what comes.

    caught_up: set as soon as all that came before has gone through. begins_again: how often it had to.
    """

    def __init__(
        self, intake: Intake, pipeline: Pipeline, announced: AnnouncedRuns, store: Store, config: Config
    ) -> None:
        self.caught_up = asyncio.Event()
        self.begins_again = 0
        self._intake, self._pipeline = intake, pipeline
        self._announced = announced
        self._store = store
        self._config = config
        self._catching_up: asyncio.Task[None] | None = None
        intake.subscribe_to(pipeline)

    @fail_stop()
    async def run(self) -> None:
        """Go on until the pipeline has ended."""
        while await self._follow():
            self.begins_again += 1
            await self._intake.begin_again()
            in_store = await self._ask_store()
            if self._pipeline.has_ended:
                return  # the next start goes on from here
            self._announced.begin_again(self._intake.group.name)
            self._pipeline.begin_again(in_store)

    def end(self) -> None:
        """Read no more of the log, and let `run` return when all that was read is committed."""
        if self._catching_up is not None:
            self._catching_up.cancel()
        self._pipeline.end()

    async def _follow(self) -> bool:
        """Return whether it has to begin again."""
        name = f"catching up {self._intake.group.name}"
        catching_up = self._catching_up = asyncio.create_task(self._catch_up(), name=name)
        try:
            return await self._pipeline.run()
        finally:
            await end_tasks(catching_up)

    @fail_stop()
    async def _catch_up(self) -> None:
        await self._intake.catch_up(self._pipeline, self._announced)
        self.caught_up.set()

    async def _ask_store(self) -> InStore:
        backoff = Backoff(0.1, AGAIN_S)
        while True:
            try:
                return await ask_store(self._store, self._intake.group, self._config)
            except StoreError as error:
                self._pipeline.note_problem(str(error))
            await backoff.pause()

"""All workloads of a daemon, as the service knows them."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from backends.base import StoreFacts
from daemon.core.configuration import LoadedConfig
from daemon.core.monitoring.events import Events
from daemon.pipeline.pipeline import Pipeline
from daemon.telemetry.status.reporter import WorkloadsStatus
from daemon.workloads.frame.runner import WorkloadRefused
from daemon.workloads.interference.runner import ExperimentRunner
from daemon.workloads.readers.governor import GovernorLoop
from daemon.workloads.readers.manager import Readers
from daemon.workloads.snapshots.runner import SnapshotsRunner
from daemon.workloads.visits.runner import VisitsRunner
from schemas.api.status import Status
from schemas.config import Config


class Workloads:
    """Starts what the configuration says, and ends it all.

    Args:
        loaded: the configuration.
        events: get what an operator should know.
        facts: what the database says of itself; None before it was asked.
        pipelines: by group; empty until the store is open.
        status: what the daemon says of itself.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        events: Events,
        *,
        facts: Callable[[], StoreFacts | None],
        pipelines: Mapping[str, Pipeline],
        status: Callable[[], Status],
    ) -> None:
        self._config = loaded.config.readers
        self._events = events
        self.readers = Readers(loaded, events)
        self.governor = GovernorLoop(self._config.governor, self.readers, events, pipelines)
        self.experiments = ExperimentRunner(loaded, self.readers, events, pipelines, status)
        self.visits = VisitsRunner(loaded, events, facts)
        self.snapshots = SnapshotsRunner(loaded, events, facts)

    async def open(self) -> None:
        """The store is open: runs may be started, and what an earlier daemon left of them is dealt with."""
        await self.experiments.open()
        await self.snapshots.open()

    async def run_configured(self) -> None:
        """The daemon takes readings: start the readers and the visits of the configuration."""
        for workload in self._config.workloads:
            try:
                await self.readers.start(workload)
            except WorkloadRefused as error:
                self._events.error(f"reader workload {workload.name} does not start: {error}")
        await self.visits.open()

    async def end(self) -> None:
        """End them all; what goes on with the next daemon is left so."""
        await self.experiments.end()
        await asyncio.gather(self.readers.end(), self.visits.end(), self.snapshots.end())

    def change(self, config: Config) -> None:
        """Take over what of a configuration can change while the daemon runs."""
        self.governor.configure(config.readers.governor)
        self.readers.change(config.conditions)

    def tasks(self) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
        """What has to run while the daemon does, by name."""
        return {"governor": self.governor.run}

    def status(self) -> WorkloadsStatus:
        """How each of them is."""
        return WorkloadsStatus(
            readers=self.readers.statuses(),
            governor=self.governor.status(),
            experiment=self.experiments.status(),
            visits=self.visits.status(),
            snapshots=self.snapshots.status(),
        )

"""The service: it starts up, serves, and shuts down."""

import asyncio
import contextlib
import gc
import os
import signal
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from backends.base import Store, StoreError, StoreUnavailable
from daemon.api import api_server
from daemon.core import descriptors
from daemon.core.configuration import LoadedConfig
from daemon.core.database import durability_of, in_its_field, layout_of, store_of, why_refused
from daemon.core.events import Events
from daemon.core.outcome import CommandFailed, reason_of
from daemon.core.reload import Reloader
from daemon.core.state_folder import only_one
from daemon.core.supervision.notify import Notifier
from daemon.core.supervision.progress_watch import Part
from daemon.core.supervision.supervision import Supervision, status_line
from daemon.pipeline.pipeline import Pipeline
from daemon.pipeline.resume import what_was_left
from daemon.pipeline.runs import Runs
from daemon.sources.base import Source
from daemon.sources.simulated import SimulatedSource
from daemon.sources.tcp import TcpSource
from daemon.sources.tls import contexts_of
from daemon.sources.udp import UdpSource
from daemon.telemetry.reporting import Reporter
from daemon.telemetry.storage_report import StorageReport
from daemon.telemetry.store_report import StoreReport
from daemon.telemetry.stream import StatusStream
from daemon.workloads.workloads import Workloads
from schemas.api.status import State
from schemas.config import Config
from schemas.config import Source as SourceConfig
from schemas.config import TcpSource as TcpConfig
from schemas.config import UdpSource as UdpConfig

FACTS_EVERY_S = 5.0
"""Time between two looks at the store; an idle daemon notices within it that the database is gone."""

OPEN_RETRY_S = 1.0
COMMIT_WITHIN_S = 20.0
"""How long the end of the service waits for the database; what is not committed then is said, and senders that got no
acknowledgement still have it."""

STOP_MORE_S = COMMIT_WITHIN_S + 10.0
LET_GO_S = 70.0
"""What the service manager is asked to wait at the end: for the commits and the journal's last sync, and then for the
store to close, which for an embedded PostgreSQL is the time it has to stop."""


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Where the daemon listens."""

    api: str
    sources: tuple[str, ...]


async def serve(loaded: LoadedConfig, ready: Callable[[Addresses], None] | None = None) -> None:
    """Run the daemon until SIGTERM or SIGINT; SIGHUP reads the configuration again.

    ready: called once readings are taken.

    Raises:
        CommandFailed: the database cannot be used as configured, an address is taken, or another daemon uses the
            state folder.
    """
    descriptors.raise_limit()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    notifier = Notifier()
    with only_one(loaded.state_dir):
        service = Service(loaded, notifier)
        # In a terminal that signal says that it was closed.
        loop.add_signal_handler(signal.SIGHUP, stop.set if os.isatty(0) else service.reload_wanted.set)
        async with asyncio.TaskGroup() as tasks:
            try:
                await service.startup(tasks, stop)
                if not stop.is_set():
                    notifier.ready(status_line(service.reporter.status()))
                    if ready is not None:
                        ready(service.addresses)
                await stop.wait()
            finally:
                await service.shutdown()


class Service:
    """The daemon: a store, a pipeline a group, sources, and the API."""

    def __init__(self, loaded: LoadedConfig, notifier: Notifier | None = None) -> None:
        self.config: Config = loaded.config
        self.events = Events()
        asked = {section.name: durability_of(section, self.config) for section in self.config.groups}
        self.store_report = StoreReport(self.config.database.backend, loaded.target, asked, self.events)
        self.reporter = Reporter(self.config, self.store_report, self.events)
        self.stream = StatusStream(self.reporter)
        self.groups = {section.name: section.group() for section in self.config.groups}
        self.pipelines: dict[str, Pipeline] = {}
        self.workloads = Workloads(
            loaded,
            self.events,
            facts=lambda: self.store_report.facts,
            pipelines=self.pipelines,
            status=self.reporter.status,
        )
        self.reporter.workloads = self.workloads.status
        try:
            self.store: Store = store_of(loaded)
        except StoreError as error:
            raise CommandFailed(in_its_field(error, self.config)) from None
        self.storage = StorageReport(self.store, self.store_report, self.reporter)
        self._tls = contexts_of(loaded)
        self._state_dir = self.reporter.folder = loaded.state_dir
        self._notifier = notifier or Notifier({})
        self._supervision = Supervision(self._notifier, self.reporter.status, self._parts, self.events)
        self._sources: list[Source] = []
        self._api = api_server(self, loaded)
        self._background: list[asyncio.Task[None]] = []
        self._committing: list[asyncio.Task[None]] = []
        self.reload_wanted = asyncio.Event()
        self._reloader = Reloader(
            loaded,
            apply=self._change,
            begun=self._notifier.reloading,
            ended=lambda: self._notifier.ready(status_line(self.reporter.status())),
            events=self.events,
        )
        self._is_open = False
        self._unknown: str | None = None

    @property
    def addresses(self) -> Addresses:
        """Where it listens."""
        return Addresses(api=self._api.address, sources=tuple(source.status().address for source in self._sources))

    async def startup(self, tasks: asyncio.TaskGroup, stop: asyncio.Event) -> None:
        """Open the API first, so that it can tell what the rest waits for; then the store, and last the sources."""
        self._background.append(tasks.create_task(self._api.serve(), name="api"))
        self._background.append(tasks.create_task(self.stream.run(), name="status stream"))
        self._background.append(tasks.create_task(self._supervision.run(), name="supervision"))
        await self._open_store(stop)
        if not self._is_open:
            return
        self._background.append(tasks.create_task(self._watch_store(), name="store watch"))
        await self._make_pipelines()
        for pipeline in self.pipelines.values():
            self._committing.append(tasks.create_task(pipeline.run(), name=f"committer {pipeline.group.name}"))
        await self.workloads.open()
        self.reporter.pipelines = self.pipelines
        self._tell_risk()
        await self._start_sources()
        self.reporter.state = State.RUNNING
        self._background.append(tasks.create_task(self._reloader.run(self.reload_wanted), name="reloads"))
        self._background += [tasks.create_task(task, name=name) for name, task in self.workloads.tasks().items()]
        # What is here now stays: a collection that walks through all of it would hold up a commit for milliseconds.
        gc.collect()
        gc.freeze()
        self.events.say("info", f"taking readings at {', '.join(self.addresses.sources)}; API at {self._api.address}")
        await self.workloads.run_configured()

    async def shutdown(self) -> None:
        """Take nothing more, commit what is here, tell the senders, and let go."""
        self.reporter.state = State.STOPPING
        self._notifier.stopping(status_line(self.reporter.status()))
        self._notifier.extend(STOP_MORE_S)
        await self.workloads.end()
        for source in self._sources:
            await source.stop()
        for pipeline in self.pipelines.values():
            pipeline.end()
        await self._finish_committing()
        self._notifier.extend(LET_GO_S)
        for source in self._sources:
            await source.close()
        self._api.stop()
        for task in self._background[1:]:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.store.close()

    def open_run(self) -> dict[str, int]:
        """Begin a new run in every group; return its number by group."""
        return {name: pipeline.open_run() for name, pipeline in self.pipelines.items()}

    def _change(self, config: Config) -> None:
        """Take over what of a configuration can change while the daemon runs."""
        self.config = config
        self.reporter.change(config)
        self.workloads.change(config)
        for pipeline in self.pipelines.values():
            pipeline.change(config)
        for source, section in zip(self._sources, config.sources, strict=True):
            source.change(section)

    def _parts(self) -> list[Part]:
        """What has to move while the daemon runs, for the watchdog."""
        pipelines = (part for pipeline in self.pipelines.values() for part in pipeline.parts())
        return [*pipelines, *(part for source in self._sources for part in source.parts())]

    # --- starting -----------------------------------------------------------------------------------------------

    async def _open_store(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self.store.open()
                self.store_report.answered(await self.store.facts())
            except StoreUnavailable as error:
                if self.store_report.problem != str(error):
                    self.events.say("error", f"the database is away, no readings are taken yet: {error}")
                self.store_report.failed(str(error))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), OPEN_RETRY_S)
            except StoreError as error:
                raise CommandFailed(in_its_field(await why_refused(self.store, error), self.config)) from None
            else:
                self._is_open = True
                return

    async def _make_pipelines(self) -> None:
        left = {
            name: await what_was_left(self.store, group, self.config, self._state_dir, self.events)
            for name, group in self.groups.items()
        }
        runs = Runs(max((found.run for found in left.values() if found.run is not None), default=1))
        for section in self.config.groups:
            found = left[section.name]
            self.pipelines[section.name] = Pipeline(
                self.groups[section.name],
                self.config,
                self.store,
                layout=layout_of(section, self.config),
                durability=durability_of(section, self.config),
                runs=runs,
                run=found.run or runs.current,
                history=found.history,
                position=found.position,
                journal=found.journal,
                recovered=found.recovered,
                dead_letters=found.dead_letters,
                events=self.events,
                noticed=self.reporter.look_at_store,
            )

    async def _start_sources(self) -> None:
        for index, section in enumerate(self.config.sources):
            source = make_source(section, self.pipelines, self.events, self._tls.get(index))
            try:
                await source.start()
            except OSError as error:
                raise CommandFailed(
                    f"sources[{index}]: cannot listen on {source.status().address} "
                    f"({reason_of(error)}); stop what uses it, or give another port"
                ) from None
            self._sources.append(source)
        self.reporter.sources = self._sources

    # --- running and stopping -----------------------------------------------------------------------------------

    async def _watch_store(self) -> None:
        while True:
            await asyncio.sleep(FACTS_EVERY_S)
            try:
                self.store_report.answered(await self.store.facts())
                self._tell_risk()
                self._unknown = None
            except StoreUnavailable as error:
                self.store_report.failed(str(error))
            except StoreError as error:
                # Readings may well be committed all the same; an operator has to know that the facts are old ones.
                if self._unknown != str(error):
                    self.events.say("warning", f"the database does not say how it is: {error}")
                self._unknown = str(error)

    def _tell_risk(self) -> None:
        for pipeline in self.pipelines.values():
            pipeline.committer.note_risk(self.store_report.risk_ms(pipeline.durability))

    async def _finish_committing(self) -> None:
        if not self._committing:
            return
        _, late = await asyncio.wait(self._committing, timeout=COMMIT_WITHIN_S)
        for task in late:
            task.cancel()
        if late:
            await asyncio.gather(*late, return_exceptions=True)
        for pipeline in self.pipelines.values():
            await self._close(pipeline)

    async def _close(self, pipeline: Pipeline) -> None:
        try:
            await pipeline.close()
        except OSError as error:
            self.events.say("error", f"group {pipeline.group.name}: the journal is not on the disk: {error}")
        left = pipeline.backlog.waiting.readings
        if not left:
            return
        where = "stay in the journal, and are committed after the next start"
        if not pipeline.has_journal or pipeline.backlog.problem is not None:
            where = "are not in the database; TCP senders that ask for acknowledgements still have theirs"
        self.events.say(
            "warning" if pipeline.has_journal else "error",
            f"group {pipeline.group.name}: {left} readings could not be committed within {COMMIT_WITHIN_S:g} s and"
            f" {where}",
        )


def make_source(
    section: SourceConfig,
    pipelines: Mapping[str, Pipeline],
    events: Events,
    tls: ssl.SSLContext | None = None,
) -> Source:
    """Make the source that a section of the configuration describes; `tls` for one that has a certificate."""
    say = partial(events.say, "warning")
    if isinstance(section, TcpConfig):
        return TcpSource(section, pipelines, tls=tls, say=say)
    if isinstance(section, UdpConfig):
        return UdpSource(section, pipelines, say=say)
    return SimulatedSource(section, pipelines)

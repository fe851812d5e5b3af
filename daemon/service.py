"""The service: it starts up, serves, and shuts down."""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from backends.base import OtherJournal, Store, StoreError
from backends.ending import end_tasks
from daemon.alarms import AlarmKeeper, Marking
from daemon.api import api_server
from daemon.calibration.current import Calibrations
from daemon.conditions.servers import conditions_servers
from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.api_token import write_token
from daemon.core.configuration.database import conditions_store_of, durability_of, in_its_field, store_of
from daemon.core.configuration.reload import Reloader
from daemon.core.monitoring.event_log import EventLog
from daemon.core.monitoring.events import KEPT, Events
from daemon.core.outcome import CommandFailed, reasons_of
from daemon.core.outside import Outside, SystemDisk
from daemon.core.process import descriptors
from daemon.core.process.state_folder import only_one
from daemon.core.supervision.fail_stop import end_at_once, process_ends
from daemon.core.supervision.figures import Figures
from daemon.core.supervision.notify import Notifier
from daemon.core.supervision.standstill import notice_standstills
from daemon.core.supervision.supervision import Supervision, status_line
from daemon.data_path import COMMIT_WITHIN_S, DataPath
from daemon.decimation.keeper import DecimationKeeper
from daemon.folders.opened import opened_folders
from daemon.marks import MarkKeeper
from daemon.pipeline.recovery import InStore, refuse_unknown_groups
from daemon.retention.keeper import RetentionKeeper
from daemon.telemetry.status.reporter import Reporter
from daemon.telemetry.status.storage import StorageReport
from daemon.telemetry.status.stream import StatusStream
from daemon.telemetry.store import StoreReport, StoreWatch
from daemon.tiers.keeper import TierKeeper
from daemon.workloads.workloads import Workloads
from schemas.api.status import Status
from schemas.checking.dsn import Feature, supports
from schemas.config import Config
from schemas.states import DaemonState

STORE_WITHIN_S = 1.0
"""A database that answers within this time is asked before anything is received: then nothing has to be kept twice."""

STOP_MORE_S = 2 * COMMIT_WITHIN_S + 10.0
CLOSE_WITHIN_S = 70.0
"""What the service manager is asked to wait at the end: for the commits, for a disk that does not take what the
database may lose, and the journal's last sync; and then for the store to close, which for an embedded PostgreSQL is the
time it has to stop."""


PART_WITHIN_S = 30.0
"""How long the end waits for a part that is for people; the data path ends without it."""

CALIBRATED_WITHIN_S = 4.0
"""How long the API waits for conditions and payloads; others wait meanwhile for their turn to ask for readings."""


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Where the daemon listens."""

    api: str
    sources: tuple[str, ...]


async def serve(loaded: LoadedConfig, ready: Callable[[Addresses], None] = lambda addresses: None) -> None:
    """Run the daemon until SIGTERM or SIGINT; SIGHUP reads the configuration again.

    ready: called when readings are taken, and again when they are committed, if the database answered later.

    Raises:
        CommandFailed: the database cannot be used as configured, an address is taken, another daemon uses the state
            folder, or it holds readings of a group that is not configured.
    """
    descriptors.raise_limit()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    notifier = Notifier()
    with only_one(loaded.state_dir):
        disk = SystemDisk()
        outside = Outside.real(disk)
        refuse_unknown_groups(loaded.state_dir, {section.name for section in loaded.config.groups}, outside.disk)
        kept = EventLog(loaded.state_dir, KEPT)
        events = Events(kept)
        disk.report = events.error

        def end(number: signal.Signals) -> None:
            events.info(f"asked to end by {number.name}")
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end, number)
        service = Service(loaded, notifier, outside, events)
        # In a terminal that signal says that it was closed.
        hung_up = partial(end, signal.SIGHUP) if os.isatty(0) else service.reload_wanted.set
        loop.add_signal_handler(signal.SIGHUP, hung_up)
        try:
            with process_ends(partial(end_at_once, events, kept)):
                async with asyncio.TaskGroup() as tasks:
                    await service.serve(tasks, stop, ready)
        except Exception as error:
            _note_why_it_ends(events, error)
            raise
        finally:
            events.end()
            kept.end()


def _note_why_it_ends(events: Events, error: Exception) -> None:
    """Once: a service manager that starts it every second must not push all other events out of those that are kept.

    The command prints it: in the log it would stand twice.
    """
    known = {event.text for event in events.newest()}
    for reason in reasons_of(error):
        text = f"the daemon ends: {reason}"
        if text not in known:
            events.keep_error(text)


class Service:
    """The daemon: a store, a pipeline a group, sources, workloads, and the API that reports on them.

    intakes: by group, from the beginning. pipelines: by group; empty until the store is open.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        notifier: Notifier | None = None,
        outside: Outside | None = None,
        events: Events | None = None,
    ) -> None:
        self.config = config = loaded.config
        self._outside = outside or Outside.real()
        self._state_dir = loaded.state_dir
        self.events = events = events or Events()
        self._figures = Figures(events)
        try:
            self.store: Store = store_of(loaded)
        except StoreError as error:
            raise CommandFailed(in_its_field(error, config)) from None
        self._path = DataPath(loaded, self.store, self._outside, events, superseded=self._give_up)
        self.groups, self.intakes, self.pipelines = self._path.groups, self._path.intakes, self._path.pipelines
        asked = {section.name: durability_of(section, config) for section in config.groups}
        report = StoreReport(config.database.backend, loaded.target, asked, events)
        self._store_report = report
        self._store_watch = StoreWatch(self.store, report, config, events, looked=self._note_risk)
        self.calibrations = Calibrations(
            conditions_store_of(loaded, connections=2)
            if supports(config.database.backend, Feature.CONDITIONS)
            else None,
            config.conditions,
            config.groups,
            folder=loaded.path.parent,
            give_up_s=CALIBRATED_WITHIN_S,
        )
        self.folders = opened_folders(loaded, events)
        self.marks = MarkKeeper(self.store, loaded.state_dir, self._outside, events)
        self.alarms = AlarmKeeper(
            loaded.state_dir,
            self._outside,
            events,
            self._status,
            marking=Marking.of(config),
            make_mark=self.marks.keep_once,
            figures=self._figures,
        )
        self.retention = RetentionKeeper(
            self.store, config, loaded.state_dir, self._outside, events, pipelines=self.pipelines
        )
        self.decimation = DecimationKeeper(
            self.store,
            config,
            self._outside,
            events,
            pipelines=self.pipelines,
            marks_waiting=lambda: self.marks.status().waiting + self.alarms.marks_waiting,
        )
        self.workloads = Workloads(
            loaded, events, facts=lambda: report.facts, pipelines=self.pipelines, status=self._status
        )
        self.tiers = TierKeeper(
            self.store,
            config,
            loaded.state_dir,
            self._outside,
            events,
            pipelines=self.pipelines,
            busy=self.decimation.busy,
            workloads_read=self.workloads.readers.read.take,
            read=self.decimation.take_read,
        )
        self.conditions = conditions_servers(loaded, events)
        self.reporter = Reporter(
            config,
            report,
            events,
            intakes=self.intakes,
            pipelines=self.pipelines,
            sources=self._path.sources,
            workloads=self.workloads.status,
            alarms=self.alarms.statuses,
            marks=self.marks.status,
            retention=self.retention.status,
            decimation=self.decimation.status,
            tiers=self.tiers.status,
            state_dir=loaded.state_dir,
            conditions=lambda: None if self.conditions is None else self.conditions.status(),
            figures=self._figures,
        )
        self.stream = StatusStream(self.reporter)
        self.storage = StorageReport(
            self.store,
            report,
            self.reporter,
            dropped=self.retention.account,
            reduced=self.decimation.account,
            tier_named=self.tiers.tier_named,
            heat_of=self.tiers.heat_of,
        )
        self._notifier = notifier or Notifier({})
        self._supervision = Supervision(
            self._notifier, lambda: self.reporter.state, self._line, self._path.parts, events
        )
        self.reload_wanted = asyncio.Event()
        self._reloader = Reloader(
            loaded,
            apply=self._change,
            begun=self._notifier.reloading,
            ended=lambda: self._notifier.ready(self._line()),
            events=events,
        )
        self._api = api_server(self, loaded)
        self._serving: asyncio.Task[None] | None = None
        self._stop: asyncio.Event | None = None
        self._ready: Callable[[Addresses], None] = lambda addresses: None
        self._failure: str | None = None
        self._background: list[asyncio.Task[None]] = []

    @property
    def addresses(self) -> Addresses:
        """Where it listens."""
        return Addresses(api=self._api.address, sources=tuple(source.status().address for source in self._path.sources))

    async def announce_run(self, epoch: int) -> dict[str, int | None]:
        """The timing system was restarted, and has this epoch now, 0 where nobody knows it.

        Returns the new run by group; None where it begins later. Raises OSError: nothing is announced.
        """
        return await self._path.announce_run(epoch)

    # --- startup, serve, shutdown -------------------------------------------------------------------------------

    async def serve(self, tasks: asyncio.TaskGroup, stop: asyncio.Event, ready: Callable[[Addresses], None]) -> None:
        """Start up, run until `stop`, and shut down; ready: as in the function `serve`."""
        self._stop, self._ready = stop, ready
        try:
            await self.startup(tasks, stop)
            await stop.wait()
        finally:
            await self.shutdown()
        if self._failure is not None:
            raise CommandFailed(self._failure)

    def _give_up(self, group: str, error: OtherJournal) -> None:
        """End, with what is here in the journal: the next start finds out what the database has."""
        self._failure = (
            f"group {group}: {error}; it was put back, or another daemon wrote as this logger: stop that one, or give"
            " it another `logger`. What this daemon has is in its journal, and is stored after its next start"
        )
        if self._stop is not None:
            self._stop.set()

    async def startup(self, tasks: asyncio.TaskGroup, stop: asyncio.Event) -> None:
        """Open the API first, which shows what the rest waits for; then the store, the pipelines, and the sources.

        Where a journal is kept, and the store does not answer at once, the sources are not kept waiting for it.
        """
        # Before the API takes an order: one about the same mark would replace what waits.
        await self._figures.attempt("marks", self.marks.open, None)
        await self._figures.attempt("alarms", self.alarms.open, None)
        serving = self._figures.keep_running("API", self._api.serve, ends=CommandFailed)
        self._serving = tasks.create_task(serving, name="api")
        self._start(tasks, "token", partial(write_token, self._state_dir, self.events))
        self._start(tasks, "status stream", self.stream.run)
        self._start(tasks, "supervision", self._supervision.run)
        self._start(tasks, "standstills", partial(notice_standstills, self.events))
        self._start(tasks, "alarms", self.alarms.run)
        if self.conditions is not None:
            self.conditions.start_when_free()
        if self.folders is not None:
            self._start(tasks, "folders", self.folders.run)
        await self._path.open()
        in_store = await self._find_store(stop)
        if in_store is None:
            return
        self.reporter.state = DaemonState.STARTING
        self._start(tasks, "store watch", self._store_watch.run)
        self._start(tasks, "marks", self.marks.run)
        await self._figures.attempt("workloads", self.workloads.open, None)
        looked = partial(self._figures.ask, "database", self.reporter.look_at_store, None)
        if not await self._path.go_on(in_store, tasks, stop, availability_changed=looked, made=self._note_risk):
            return
        if not self._path.sources:
            await self._path.start_sources()
        self.reporter.state = DaemonState.RUNNING
        self._say_ready("taking readings")
        self._start(tasks, "retention", self.retention.run)
        self._start(tasks, "decimation", self.decimation.run)
        self._start(tasks, "tiers", self.tiers.run)
        self._start(tasks, "reloads", partial(self._reloader.run, self.reload_wanted))
        # What is here now stays: a collection that walks through all of it would hold up a commit for milliseconds.
        gc.collect()
        gc.freeze()
        for name, work in self.workloads.tasks().items():
            self._start(tasks, name, work)
        await self._figures.attempt("workloads", self.workloads.run_configured, None)

    async def shutdown(self) -> None:
        """Take nothing more, commit what is here, send the last acknowledgements, and close everything."""
        self.reporter.state = DaemonState.STOPPING
        self._notifier.stopping(self._line())
        self._notifier.extend(STOP_MORE_S + PART_WITHIN_S)
        ending = [self._figures.attempt("workloads", self.workloads.end, PART_WITHIN_S)]
        if self.conditions is not None:
            ending.append(self._figures.attempt("conditions", self.conditions.end, PART_WITHIN_S))
        await asyncio.gather(*ending)
        await self._path.stop_taking()
        await self._path.finish()
        self._notifier.extend(CLOSE_WITHIN_S)
        await self._path.close_sources()
        self._api.stop()
        await end_tasks(*self._background)
        await self._figures.attempt("storage", self.storage.close, PART_WITHIN_S)
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)
        await self._figures.attempt("calibrations", self.calibrations.close, PART_WITHIN_S)
        if self.folders is not None:
            await self._figures.attempt("folders", self.folders.close, PART_WITHIN_S)
        await self.store.close()

    def _start(self, tasks: asyncio.TaskGroup, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run what is for people until the end, which cancels it; its errors end nothing."""
        self._background.append(tasks.create_task(self._figures.keep_running(name, work), name=name))

    async def _find_store(self, stop: asyncio.Event) -> dict[str, InStore] | None:
        """What the store has, as soon as it answers; None when `stop` came first. May start the sources before."""
        away = asyncio.Event()
        opening = asyncio.create_task(
            self._store_watch.open(
                stop,
                self._path.ask_store,
                away=away,
                is_taking=lambda: bool(self._path.sources),
                refuse=self._path.refuse,
            )
        )
        waiting = asyncio.create_task(away.wait())
        try:
            if self.config.journal.max_mib:
                await asyncio.wait([opening, waiting], timeout=STORE_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
                if not opening.done() and not stop.is_set():
                    self.reporter.state = DaemonState.STORE_AWAY
                    await self._path.start_sources()
                    self._say_ready("taking readings into the journal until the database answers,")
            return await opening
        finally:
            await end_tasks(opening, waiting)

    def _say_ready(self, taking: str) -> None:
        self.events.info(f"{taking} at {', '.join(self.addresses.sources)}; API at {self._api.address}")
        self._notifier.ready(self._line())
        self._ready(self.addresses)

    def _note_risk(self) -> None:
        for pipeline in self.pipelines.values():
            pipeline.note_risk(self._store_report.risk_ms(pipeline.durability))

    # --- what others ask ----------------------------------------------------------------------------------------

    def _line(self) -> str:
        return self._figures.ask("status line", lambda: status_line(self._status()), "")

    def _status(self) -> Status:
        return self.reporter.status()

    def _change(self, config: Config) -> None:
        """Take over what of a configuration can change while the daemon runs."""
        self.config = config
        self.reporter.change(config)
        self.calibrations.change(config.conditions)
        if self.folders is not None:
            self.folders.change(config.folders)
        self.workloads.change(config)
        self.retention.change(config)
        self.decimation.change(config)
        self.alarms.change(Marking.of(config))
        self.tiers.change(config)
        self._path.change(config)

"""Runs of snapshot readers in a daemon, one at a time: their settings as words of a command, and their archive."""

import asyncio
import json
import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

from backends.base import StoreFacts
from daemon.core.configuration import LoadedConfig
from daemon.core.monitoring.events import Events
from daemon.core.outcome import reason_of
from daemon.core.process.processor import machine
from daemon.workloads.frame.archive import Files, RunArchive
from daemon.workloads.frame.messages import Message
from daemon.workloads.frame.runner import ProcessFailed, Runner, WorkloadBusy, WorkloadProcess, WorkloadRefused
from daemon.workloads.snapshots.messages import MESSAGES, Spec, Tick, Troubled
from daemon.workloads.snapshots.progress import SnapshotsProgress
from schemas.api.snapshots import SnapshotSettings, SnapshotsRun, SnapshotsStatus, SnapshotsSummary
from schemas.checking.dsn import Feature, unsupported
from schemas.states import RunState

FOLDER = "snapshots"


def snapshots_archive(state_dir: Path) -> RunArchive[SnapshotsRun, SnapshotsSummary]:
    """The archive below a state folder."""
    return RunArchive(state_dir / FOLDER, SnapshotsRun, summary_of)


def summary_of(record: SnapshotsRun, _: Files) -> SnapshotsSummary:
    """A line of the list."""
    settings = record.settings
    return SnapshotsSummary(
        id=record.id,
        began_ns=record.began_ns,
        ended_ns=record.ended_ns,
        state=record.state,
        problem=record.problem,
        layout=settings.layout,
        folders=settings.folders,
        channels=settings.channels,
        clients=settings.clients,
        cycles=record.figures.cycles,
        efficiency=record.figures.efficiency,
        rows_asked=settings.rows_asked,
        cliff=record.cliff,
    )


def with_changes(changes: Mapping[str, Any]) -> SnapshotSettings:
    """The defaults with some fields changed; all is checked.

    Raises:
        pydantic.ValidationError: they do not fit together.
    """
    # Strictly, and by way of JSON, as a configuration is checked: `"clients": "100"` does not pass.
    return SnapshotSettings.model_validate_json(json.dumps(dict(changes)), strict=True)


def command_of(settings: SnapshotSettings, *more: str) -> str:
    """The command that repeats a run; `more` are further words of it."""
    words = ["triggerlog", "snapshots", "run", *more]
    for name, value in settings.model_dump(mode="json", by_alias=True, exclude_defaults=True).items():
        words += _option(name.replace("_", "-"), value)
    return shlex.join(words)


def _option(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name.removesuffix('-s')}", _number(value) if isinstance(value, float) else str(value)]


def _number(value: float) -> str:
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


WRITE_EVERY_S = 30.0
"""What was measured is written down so often while a run goes on."""


def snapshots_process(spec: Spec) -> WorkloadProcess[Message]:
    """The process of snapshot readers, not started yet."""
    log = spec.state_dir / "snapshots" / "process.log"
    return WorkloadProcess("process of snapshot readers", "daemon.workloads.snapshots", lambda: spec, log, MESSAGES)


async def follow(run: SnapshotsProgress, process: WorkloadProcess[Message], took: Callable[[Message], Any]) -> None:
    """Follow a run to its end, and note in it how it ended. took: called after each message."""
    try:
        async with aclosing(process.messages()) as messages:
            async for message in messages:
                run.take(message)
                took(message)
    except ProcessFailed as error:
        run.state, run.problem = RunState.FAILED, str(error)
    else:
        run.state = RunState.FINISHED if run.is_whole else RunState.STOPPED
        run.problem = None if run.is_whole else "it was stopped on request"


def facts_of(server: StoreFacts | None) -> dict[str, Any]:
    """Fields of a record: the machine, and what the server says of itself, where it did."""
    facts: dict[str, Any] = {"machine": machine()}
    if server is not None:
        facts |= {"product": server.backend, "version": server.version, "server": dict(server.settings)}
    return facts


class SnapshotsRunner(Runner[SnapshotsProgress]):
    """Starts a run of snapshot readers, and ends it.

    facts: what the database says of itself; None before it was asked.
    """

    def __init__(self, loaded: LoadedConfig, events: Events, facts: Callable[[], StoreFacts | None]) -> None:
        super().__init__(events)
        self.archive = snapshots_archive(loaded.state_dir)
        self._loaded = loaded
        self._facts = facts
        self._process: WorkloadProcess[Message] | None = None

    async def open(self) -> None:
        """The database is there; what a daemon left running when it died was interrupted."""
        for summary in await asyncio.to_thread(self.archive.summaries):
            if not summary.state.is_over:
                found = await asyncio.to_thread(self.archive.read, summary.id)
                problem = "the daemon ended without being asked to"
                await self._write(found.model_copy(update={"state": RunState.INTERRUPTED, "problem": problem}))
        for problem in self.archive.damaged:
            self._events.warning(problem)
        self._is_open = True

    async def start(self, changes: Mapping[str, Any]) -> SnapshotsStatus:
        """Start a run; `changes` are the fields in which it differs from the defaults.

        Raises:
            WorkloadRefused: one runs, or it cannot be started.
            pydantic.ValidationError: the settings do not fit together.
        """
        self._require_open()
        for lacking in unsupported(self._loaded.config.database.backend, Feature.FOLDERS, Feature.FOLDERS):
            raise WorkloadRefused(lacking.problem, lacking.fix, lacking.field)
        settings = with_changes(changes)
        self._require_own_schema(settings)
        async with self._starting:
            if await self._others_end() is not None:
                raise WorkloadBusy("snapshot readers run already", "stop them first, or wait for their end")
            name = await asyncio.to_thread(self.archive.new_id)
            command = command_of(settings, str(self._loaded.path))
            self.run = run = SnapshotsProgress(name, settings, target=self._loaded.target, command=command)
            await self._write(run.record(**facts_of(self._facts())))
            self._process = process = snapshots_process(self._spec(settings))
            self._start(self._carry_out(run, process), "snapshot readers")
        self._events.info(
            f"snapshot readers begin: {settings.clients:,} clients, {settings.folders:,} folders of"
            f" {settings.channels:,} channels, {settings.layout}"
        )
        return run.status()

    async def stop(self) -> SnapshotsStatus:
        """End the run; return how it is then, without waiting for its end. Cycles under way do not count.

        Raises:
            KeyError: none runs.
        """
        run, process = self.running, self._process
        if run is None or process is None:
            raise KeyError("no snapshot readers run")
        if not process.stopping.is_set():
            run.state = RunState.STOPPING
            process.stop()
        return run.status()

    def status(self) -> SnapshotsStatus | None:
        """How the run is, or how the last one since the daemon started ended."""
        return None if self.run is None else self.run.status()

    def past(self) -> list[SnapshotsSummary]:
        """The archived runs, the newest first, without the one that is under way. Not for the event loop."""
        running = self.running
        return [summary for summary in self.archive.summaries() if running is None or summary.id != running.name]

    # --- starting and ending -------------------------------------------------------------------------------------

    def _require_own_schema(self, settings: SnapshotSettings) -> None:
        config = self._loaded.config
        taken = {
            "database.schema": config.database.schema_name,
            "visits.schema": config.visits.schema_name,
            "conditions.schema": config.conditions.schema_name,
            "folders.schema": config.folders.schema_name,
        }
        for field, schema in taken.items():
            if settings.schema_name == schema:
                fix = "give snapshot readers a schema of their own"
                raise WorkloadRefused(f"{field} is {schema!r}, too", fix, "schema")

    def _spec(self, settings: SnapshotSettings) -> Spec:
        return Spec(
            parent=os.getpid(),
            database=self._loaded.config.database,
            password=self._loaded.password,
            state_dir=self._loaded.state_dir,
            snapshots=settings,
            gives_way=True,
        )

    async def _carry_out(self, run: SnapshotsProgress, process: WorkloadProcess[Message]) -> None:
        writing = asyncio.create_task(self._write_often(run))
        try:
            await follow(run, process, lambda message: self._say(run, message))
        except asyncio.CancelledError:
            run.state, run.problem = RunState.INTERRUPTED, "the daemon was stopped"
            raise
        finally:
            writing.cancel()
            await self._write(run.record(**facts_of(self._facts())))
            await asyncio.to_thread(self.archive.remove_old)
            self._say_end(run)

    async def _write_often(self, run: SnapshotsProgress) -> None:
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            await self._write(run.record(**facts_of(self._facts())))

    async def _write(self, record: Any) -> None:
        try:
            await asyncio.to_thread(self.archive.write, record.id, record)
        except OSError as error:
            self._events.error(f"snapshot readers {record.id} cannot be archived: {reason_of(error)}")

    # --- events --------------------------------------------------------------------------------------------------

    def _say(self, run: SnapshotsProgress, message: Message) -> None:
        if isinstance(message, Troubled):
            self._events.warning_seldom("snapshots wait", f"snapshot readers wait: {message.problem}")
        elif isinstance(message, Tick) and message.problem is not None:
            self._events.warning_seldom("snapshot fails", f"a snapshot reader gets no answer: {message.problem}")

    def _say_end(self, run: SnapshotsProgress) -> None:
        found = run.status().figures
        done = f"{found.in_time:,} of {found.cycles:,} cycles were in time"
        if run.state is RunState.FAILED:
            self._events.error(f"snapshot readers failed: {run.problem}; {done}")
            return
        how = {RunState.FINISHED: "ended", RunState.STOPPED: "were stopped"}.get(run.state, "end with the daemon")
        self._events.info(f"snapshot readers {how}: {done}")

"""The experiments of a daemon: one at a time, archived, and reported by a process of its own."""

import asyncio
import contextlib
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import reading_from
from daemon.core.monitoring.events import Events
from daemon.core.outcome import reason_of
from daemon.core.process.processor import processor
from daemon.pipeline.pipeline import Pipeline
from daemon.workloads.frame.archive import Files, RunArchive
from daemon.workloads.frame.runner import CommandEnded, Runner, WorkloadBusy, WorkloadRefused, run_command
from daemon.workloads.interference.counters import EVERY_S, ServerWatch, watching_store
from daemon.workloads.interference.experiment import command_of, readers_words, staffed
from daemon.workloads.interference.run import Beside, ExperimentRun
from daemon.workloads.readers.manager import Readers
from schemas.api.interference import Conditions, Experiment, Live, Ratio, Record, Result, Summary
from schemas.api.status import ExperimentStatus, GovernorStatus, GroupStatus, Status
from schemas.checking.problems import without_passwords
from schemas.config import Workload
from schemas.states import ExperimentPhase, RunState

# --- conditions of an experiment -------------------------------------------------------------------------------------


def conditions_of(loaded: LoadedConfig, status: Status) -> Conditions:
    """Ask the machine and the daemon's status."""
    store = status.store
    dsn = reading_from(loaded)[0].dsn if loaded.config.readers.dsn is not None else None
    return Conditions(
        machine=processor(),
        cores=os.cpu_count() or 1,
        memory_gib=psutil.virtual_memory().total / 2**30,
        load_average=os.getloadavg()[0],
        python=platform.python_version(),
        version=status.version,
        backend=str(loaded.config.database.backend),
        server=f"{store.product} {store.version}",
        target=store.target,
        read_from=store.target if dsn is None else without_passwords(dsn),
        embedded=store.embedded,
        durability=store.durability,
        settings=store.settings,
        groups={name: _group(group) for name, group in status.groups.items()},
        journal=loaded.config.journal.max_mib > 0,
        stored=sum(group.triggers.account_at_start + group.triggers.committed for group in status.groups.values()),
        budget_ms=status.limits["commit_p99_ms"],
        governor=governor_words(status.governor),
    )


def governor_words(governor: GovernorStatus | None) -> str:
    """The governor's ceilings; empty when it is off."""
    if governor is None:
        return ""
    ceilings = []
    if governor.commit_p99_ms is not None:
        ceilings.append(f"commit p99 at most {governor.commit_p99_ms:g} ms")
    if governor.backlog_triggers is not None:
        ceilings.append(f"at most {governor.backlog_triggers:,} triggers waiting")
    return ", ".join(ceilings)


def _group(group: GroupStatus) -> str:
    return f"{group.instruments:,} instruments, {group.layout}, {group.durability}"


# --- the archive -----------------------------------------------------------------------------------------------------

FOLDER = "interference"
REPORT = ".html"


def experiment_archive(state_dir: Path) -> RunArchive[Record, Summary]:
    """The archive of a daemon."""
    return RunArchive(state_dir / FOLDER, Record, summary_of)


def summary_of(record: Record, files: Files) -> Summary:
    """A line of the list."""
    result, settings = record.result, record.settings
    return Summary(
        id=record.id,
        began_ns=record.began_ns,
        state=record.state,
        problem=record.problem,
        readers=readers_words(settings),
        pairs=settings.pairs,
        block_s=settings.block_s,
        doses=list(settings.doses),
        blocks=sum(block.counts for block in record.blocks),
        p99=_ratio(result, "p99_ms"),
        rate=_ratio(result, "rate"),
        steady=result.steady if result else None,
        headline=result.headline if result else "",
        report=REPORT in files,
    )


def _ratio(result: Result | None, figure: str) -> Ratio | None:
    rows = [row for row in (result.rows if result else []) if row.figure == figure]
    return max(rows, key=lambda row: row.readers).b_to_a if rows else None


# --- experiments -----------------------------------------------------------------------------------------------------


class ExperimentRunner(Runner[ExperimentRun]):
    """Starts experiments and ends them, and knows those that were.

    pipelines: by group; empty until the store is open. status: what the daemon says of itself.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        readers: Readers,
        events: Events,
        pipelines: Mapping[str, Pipeline],
        status: Callable[[], Status],
    ) -> None:
        super().__init__(events)
        self.archive = experiment_archive(loaded.state_dir)
        self._loaded = loaded
        self._readers = readers
        self._pipelines = pipelines
        self._status = status
        self._conditions: Conditions | None = None

    async def open(self) -> None:
        """Report what was not reported; what a daemon left running when it died was interrupted."""
        summaries = await asyncio.to_thread(self.archive.summaries)
        for problem in self.archive.damaged:
            self._events.warning(problem)
        for summary in summaries:
            if summary.state is RunState.RUNNING:
                found = await asyncio.to_thread(self.archive.read, summary.id)
                changes = {"state": RunState.INTERRUPTED, "problem": "the daemon ended without being asked to"}
                await self._write(found.model_copy(update=changes))
        self._is_open = True
        unreported = [summary.id for summary in summaries if not summary.report]
        if unreported:
            self._start(self._report_all(unreported), "experiment reports")

    async def start(self, settings: Experiment) -> str:
        """Start an experiment, and return its id.

        Raises:
            WorkloadRefused: it cannot be started.
        """
        async with self._starting:
            self._require_free(settings)
            if self._task is not None:
                await self._task  # reports of those before
            watched = watching_store(self._loaded)
            name = await asyncio.to_thread(self.archive.new_id)
            await self._start_readers(settings)
            run = ExperimentRun(
                name,
                settings,
                readers=self._readers,
                pipelines=self._pipelines,
                watch=lambda note: ServerWatch(watched, note, _watch_every_s(settings)),
                beside=lambda: self._beside(settings),
                after_block=self._write_run,
            )
            self.run = run
            self._conditions = conditions_of(self._loaded, self._status())
            await self._write_run()
            self._start(self._carry_out(run), f"experiment {name}")
        self._events.info(f"interference experiment {run.name} starts: {readers_words(settings)}")
        return run.name

    async def stop(self, why: str = "it was stopped on request") -> str:
        """End the experiment that runs, wait for its report, and return its id.

        Raises:
            KeyError: none runs.
        """
        run, task = self.running, self._task
        if run is None or task is None or run.state.is_over:  # it is being reported
            raise KeyError("no experiment runs")
        run.stop(why)
        await asyncio.wait([task])
        return run.name

    async def end(self) -> None:
        """The daemon ends: archive what was measured; its report is made after the next start."""
        self._is_ending = True
        if self._task is None:
            return
        if self.running is None or self.running.state.is_over:
            self._task.cancel()
        else:
            self.running.stop("the daemon was stopped")
        await asyncio.wait([self._task])

    # --- what is asked of it -------------------------------------------------------------------------------------

    def status(self) -> ExperimentStatus | None:
        """The one that runs."""
        return None if self.running is None else self.running.status()

    def live(self, samples: int, blocks: int) -> Live | None:
        """The one that runs, with the samples and the blocks after these numbers."""
        run, conditions = self.running, self._conditions
        if run is None or run.state.is_over or conditions is None:
            return None
        return Live(
            id=run.name,
            settings=run.settings,
            planned=len(run.order),
            budget_ms=conditions.budget_ms,
            blocks=run.blocks[blocks:],
            samples=run.timeline[samples:],
            next=len(run.timeline),
        )

    def past(self) -> list[Summary]:
        """Those that were, the newest first. Not for the event loop."""
        run = self.running
        going = run.name if run is not None and not run.state.is_over else None
        return [summary for summary in self.archive.summaries() if summary.id != going]

    # --- starting and ending -------------------------------------------------------------------------------------

    def _require_free(self, settings: Experiment) -> None:
        self._require_open()
        if not self._pipelines:  # they are made after the store is open; one without them would measure nothing
            raise WorkloadBusy("the daemon is starting", "try again later")
        running = self.running
        if running is not None:
            raise WorkloadBusy(f"experiment {running.name} runs already", "wait for its end, or stop it first")
        governor = governor_words(self._status().governor)
        if governor and not settings.governed:
            raise WorkloadBusy(
                f"the governor is on ({governor}) and may admit fewer readers than a block asks for",
                "turn it off, or set this to true and have it noted",
                "governed",
            )

    async def _start_readers(self, settings: Experiment) -> None:
        started: list[Workload] = []
        try:
            for i, workload in enumerate(staffed(settings)):
                at = f"workloads[{i}]"
                await self._readers.start(workload, admitted=0)
                started.append(workload)
        except WorkloadRefused as error:
            for workload in started:
                await self._readers.stop(workload.name)
            field = f"{at}.{error.field}" if error.field else at
            raise WorkloadRefused(error.problem, error.fix, field) from None

    def _beside(self, settings: Experiment) -> Beside:
        """What goes on that is none of the experiment."""
        status, own = self._status(), {workload.name for workload in settings.workloads}
        others = {name for name, each in status.readers.items() if name not in own and each.admitted}
        if status.visits is not None and status.visits.is_active:
            others.add("a run of visits")
        if status.snapshots is not None and status.snapshots.is_active:
            others.add("snapshot readers")
        return governor_words(status.governor), frozenset(others)

    async def _carry_out(self, run: ExperimentRun) -> None:
        try:
            outcome = await run.measure()
        finally:
            for workload in run.settings.workloads:
                with contextlib.suppress(KeyError):  # somebody stopped it
                    await self._readers.stop(workload.name)
        run.state, run.phase = outcome, ExperimentPhase.REPORTING
        await self._write_run()
        if not self._is_ending:
            await self._report(run.name)
        await self._say_end(run)
        await asyncio.to_thread(self.archive.remove_old)

    async def _say_end(self, run: ExperimentRun) -> None:
        if run.state is RunState.FAILED:
            self._events.error(f"interference experiment {run.name} failed: {run.problem}")
            return
        headlines = {summary.id: summary.headline for summary in await asyncio.to_thread(self.archive.summaries)}
        headline = headlines.get(run.name, "")
        self._events.info(f"interference experiment {run.name} is {run.state}. {headline}".rstrip())

    # --- archive and report --------------------------------------------------------------------------------------

    def _record(self, run: ExperimentRun) -> Record:
        assert self._conditions is not None
        return Record(
            id=run.name,
            began_ns=run.began_ns,
            ended_ns=time.time_ns() if run.state.is_over else None,
            state=run.state,
            problem=run.problem if run.state in (RunState.STOPPED, RunState.FAILED) else None,
            settings=run.settings,
            conditions=self._conditions,
            notes=list(run.notes),
            command=command_of(run.settings, str(self._loaded.path)),
            planned=len(run.order),
            blocks=list(run.blocks),
            timeline=list(run.timeline),
        )

    async def _write_run(self) -> None:
        """Write down how far it is, so that nothing is lost with the daemon."""
        if self.run is not None:
            await self._write(self._record(self.run))

    async def _write(self, record: Record) -> None:
        try:
            await asyncio.to_thread(self.archive.write, record.id, record)
        except OSError as error:
            self._events.error(f"experiment {record.id} cannot be archived: {reason_of(error)}")

    async def _report_all(self, names: list[str]) -> None:
        for name in names:
            await self._report(name)

    async def _report(self, name: str) -> None:
        """Have the statistics computed and the report written, and say what went wrong with that."""
        record, log = self.archive.path(name), self.archive.folder / "report.log"
        command = ("-m", "benchmarks.interference", str(record), "--html", str(self.archive.path(name, REPORT)))
        try:
            await run_command("report", command, log)
        except CommandEnded as error:
            self._events.error(f"experiment {name} is not reported: {error}")


def _watch_every_s(settings: Experiment) -> float:
    """Often enough for a few looks in a short block."""
    return min(EVERY_S, (settings.block_s - settings.warm_up_s) / 4)

"""The experiments of a daemon: one at a time, kept, and reported by a process of its own."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Coroutine, Mapping

from daemon.core.configuration import LoadedConfig
from daemon.core.monitoring.events import Events
from daemon.core.outcome import reason_of
from daemon.core.process.children import Child
from daemon.pipeline.pipeline import Pipeline
from daemon.workloads.interference.blocks import staffed
from daemon.workloads.interference.conditions import conditions_of, governor_words
from daemon.workloads.interference.keeper import Keeper, broken_off, summary_of
from daemon.workloads.interference.run import Run
from daemon.workloads.interference.server_watch import EVERY_S, ServerWatch, watching_store
from daemon.workloads.interference.words import command_of, readers_words
from daemon.workloads.readers.manager import Readers, WorkloadRefused
from schemas.api.interference import Conditions, Experiment, Live, Record, RecordState, Summary
from schemas.api.status import ExperimentStatus, Status
from schemas.config import Workload

FOLDER = "interference"
LEAST_LINE = 2**16


class ExperimentRefused(Exception):
    """An experiment cannot be started; the message is one line that names the field and the mend."""


class Busy(ExperimentRefused):
    """Something is in its way that goes again: another experiment, a workload of the same name, the governor."""


class Experiments:
    """Starts experiments and ends them, and knows those that were.

    pipelines: by group; empty until the store is open. status: what the daemon says of itself.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        readers: Readers,
        events: Events,
        *,
        pipelines: Mapping[str, Pipeline],
        status: Callable[[], Status],
    ) -> None:
        self.pipelines = pipelines
        self._loaded = loaded
        self._readers = readers
        self._events = events
        self._status = status
        self.keeper = Keeper(loaded.state_dir / FOLDER)
        self._past: dict[str, Summary] = {}
        self._starting = asyncio.Lock()
        self._run: Run | None = None
        self._reporting: ExperimentStatus | None = None
        self._conditions: Conditions | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_ending = False

    async def open(self) -> None:
        """Look what there was; what a daemon left running when it died was broken off, and is reported now."""
        records, wrong = await asyncio.to_thread(self.keeper.read_all)
        for problem in wrong:
            self._events.warning(problem)
        unreported = []
        for found in records:
            record = broken_off(found) if found.state is RecordState.RUNNING else found
            if record is not found:
                await self._write(record)
            self._remember(record)
            if record.result is None:
                unreported.append(record)
        if unreported:
            self._task = self._started(self._report_all(unreported), "experiment reports")

    async def start(self, settings: Experiment) -> str:
        """Start an experiment, and return its id.

        Raises:
            ExperimentRefused: it cannot be started.
        """
        async with self._starting:
            self._see_it_may(settings)
            if self._task is not None:
                await self._task  # reports of those before
            watched = watching_store(self._loaded)
            name = await asyncio.to_thread(self.keeper.new_id)
            await self._start_readers(settings)
            run = Run(
                name,
                settings,
                readers=self._readers,
                pipelines=self.pipelines,
                watch=lambda note: ServerWatch(watched, note, _watch_every_s(settings)),
                keep=self._keep,
            )
            self._run = run
            self._conditions = conditions_of(self._loaded, self._status())
            run.notes += self._other_readers(settings)
            await self._keep()
            self._task = self._started(self._carry_out(run), f"experiment {name}")
        self._events.info(f"interference experiment {run.name} starts: {readers_words(settings)}")
        return run.name

    async def stop(self, why: str = "it was stopped on request") -> str:
        """End the experiment that runs, keep what it measured, and return its id.

        Raises:
            KeyError: none runs.
        """
        run, task = self._run, self._task
        if run is None or task is None:
            raise KeyError("no experiment runs")
        run.stop(why)
        await asyncio.wait([task])
        return run.name

    async def end(self) -> None:
        """The daemon ends: keep what was measured; its report is made after the next start."""
        self._is_ending = True
        if self._task is None:
            return
        if self._run is not None:
            self._run.stop("the daemon was stopped")
        else:
            self._task.cancel()
        await asyncio.wait([self._task])

    # --- what is asked of it -------------------------------------------------------------------------------------

    def status(self) -> ExperimentStatus | None:
        """The one that runs."""
        return self._run.status() if self._run is not None else self._reporting

    def live(self, samples: int, blocks: int) -> Live | None:
        """The one that runs, with the samples and the blocks after these numbers."""
        run, conditions = self._run, self._conditions
        if run is None or conditions is None:
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
        """Those that were, the newest first."""
        return sorted(self._past.values(), key=lambda summary: summary.id, reverse=True)

    # --- starting and ending -------------------------------------------------------------------------------------

    def _see_it_may(self, settings: Experiment) -> None:
        if not self.pipelines or self._is_ending:
            raise Busy("the daemon is starting or stopping; try again later")
        running = self.status()
        if running is not None:
            raise Busy(f"experiment {running.id} runs already; wait for its end, or stop it first")
        governor = governor_words(self._status().governor)
        if governor and not settings.governed:
            raise Busy(
                f"governed: the governor is on ({governor}) and may admit fewer readers than a block asks for; "
                "turn it off, or set this to true and have it noted"
            )

    async def _start_readers(self, settings: Experiment) -> None:
        started: list[Workload] = []
        try:
            for i, workload in enumerate(staffed(settings)):
                field = f"workloads[{i}]"
                await self._readers.start(workload, admitted=0)
                started.append(workload)
        except WorkloadRefused as error:
            for workload in started:
                await self._readers.stop(workload.name)
            raise ExperimentRefused(f"{field}.{error}") from None

    def _other_readers(self, settings: Experiment) -> list[str]:
        own = {workload.name for workload in settings.workloads}
        others = [name for name, status in self._readers.statuses().items() if name not in own and status.admitted]
        if not others:
            return []
        return [f"Other readers ran all along, in A and in B alike: {', '.join(others)}."]

    async def _carry_out(self, run: Run) -> None:
        try:
            try:
                await run.measure()
            finally:
                await self._stop_readers(run)
            record = self._record(run)
            await self._write(record)
            self._remember(record)
            self._reporting = run.status().model_copy(update={"phase": "reporting", "left_s": 0.0})
        finally:
            self._run = None
        try:
            if not self._is_ending:
                await self._report(record)
        finally:
            self._reporting = None
        self._say_end(record)
        for name in await asyncio.to_thread(self.keeper.forget_old):
            self._past.pop(name, None)

    async def _stop_readers(self, run: Run) -> None:
        for workload in run.settings.workloads:
            with contextlib.suppress(KeyError):  # somebody stopped it
                await self._readers.stop(workload.name)

    def _say_end(self, record: Record) -> None:
        summary = self._past[record.id]
        if record.state is RecordState.FAILED:
            self._events.error(f"interference experiment {record.id} failed: {record.problem}")
        else:
            self._events.info(f"interference experiment {record.id} is {record.state}. {summary.headline}")

    def _started(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._tell_defect)
        return task

    def _tell_defect(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            reason = f"{type(error).__name__}: {error}"
            self._events.error(f"{task.get_name()} ended in a defect of triggerlog: {reason}")

    # --- keeping and reporting -----------------------------------------------------------------------------------

    def _record(self, run: Run) -> Record:
        assert self._conditions is not None
        is_over = run.state is not RecordState.RUNNING
        return Record(
            id=run.name,
            began_ns=run.began_ns,
            ended_ns=time.time_ns() if is_over else None,
            state=run.state,
            problem=run.problem if is_over else None,
            settings=run.settings,
            conditions=self._conditions,
            notes=list(run.notes),
            command=command_of(run.settings, str(self._loaded.path)),
            planned=len(run.order),
            blocks=list(run.blocks),
            timeline=list(run.timeline),
        )

    async def _keep(self) -> None:
        """Write down how far it came, so that nothing is lost with the daemon."""
        if self._run is not None:
            await self._write(self._record(self._run))

    async def _write(self, record: Record) -> None:
        try:
            await asyncio.to_thread(self.keeper.write, record)
        except OSError as error:
            self._events.error(f"experiment {record.id} cannot be kept: {reason_of(error)}")

    def _remember(self, record: Record) -> None:
        has_report = self.keeper.report_path(record.id).exists()
        self._past[record.id] = summary_of(record, has_report=has_report)

    async def _report_all(self, records: list[Record]) -> None:
        for record in records:
            await self._report(record)

    async def _report(self, record: Record) -> None:
        """Have the statistics worked out and the report written, and say what went wrong with that."""
        log = self.keeper.folder / "report.log"
        command = [sys.executable, "-m", "benchmarks.interference", str(self.keeper.record_path(record.id))]
        try:
            # Piped, so that nothing of this process has to run between fork and exec.
            child = await Child.start("report", command, log, piped=LEAST_LINE)
        except OSError as error:
            self._events.error(f"experiment {record.id} is not reported: {reason_of(error)}")
            return
        try:
            await child.ended()
        finally:
            await child.kill()
        if child.exit_code:
            self._events.error(f"experiment {record.id} is not reported: {child.ending()}")
            return
        self._remember(await asyncio.to_thread(self.keeper.read, record.id))


def _watch_every_s(settings: Experiment) -> float:
    """Often enough for a few looks in a short block."""
    return min(EVERY_S, (settings.block_s - settings.warm_up_s) / 4)

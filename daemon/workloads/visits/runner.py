"""Runs of visits in a daemon: one at a time, resumed after a restart of the daemon."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, aclosing
from pathlib import Path

from backends.base import StoreFacts
from daemon.core.configuration import LoadedConfig
from daemon.core.monitoring.events import Events
from daemon.core.outcome import VISITS_NEED, CommandFailed, reason_of, require_extra
from daemon.workloads.frame.messages import Message
from daemon.workloads.frame.runner import (
    PAUSE_S,
    ProcessRefused,
    Runner,
    WorkloadBusy,
    WorkloadProcess,
    WorkloadRefused,
    run_command,
)
from daemon.workloads.visits.archive import CSV, FOLDER, REPORT, Series, VisitsArchive, VisitsInUse
from daemon.workloads.visits.facts import facts_of
from daemon.workloads.visits.messages import Begun, Lost, Troubled, Visited, spec_of, visits_process
from daemon.workloads.visits.progress import RunProgress
from daemon.workloads.visits.settings import with_changes
from schemas.api.visits import VisitsRun, VisitsStatus, VisitsSummary
from schemas.config.visits import VisitsConfig
from schemas.states import RunState

Outcome = tuple[RunState, str | None]
"""How a run ended, and of a failure why."""


class VisitsRunner(Runner[RunProgress]):
    """Starts a run of visits, and ends it.

    facts: what the database says of itself; None before it was asked.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        events: Events,
        facts: Callable[[], StoreFacts | None],
        *,
        pause_s: float = PAUSE_S,
    ) -> None:
        super().__init__(events)
        self.archive = VisitsArchive(loaded.state_dir / FOLDER)
        self.files = RunFiles(self.archive)
        self._loaded = loaded
        self._facts = facts
        self._pause_s = pause_s
        self._process: WorkloadProcess[Message] | None = None

    async def open(self) -> None:
        """The database is there: go on with the run that the last daemon left, or begin as the configuration says."""
        self._is_open = True
        before = await asyncio.to_thread(self._left_behind)
        wanted = self._loaded.config.visits
        try:
            if before is not None and (before.settings == wanted if wanted.start else not before.settings.start):
                await self._begin(before.settings, before)
            elif wanted.start:
                await self._begin(wanted, None)
        except WorkloadRefused as error:
            self._events.error(f"visits do not start: {error}")

    async def start(self, changes: dict[str, object]) -> VisitsStatus:
        """Start a run; `changes` are the fields in which it differs from the configuration, checked already.

        Raises:
            WorkloadRefused: one runs, or it cannot be started.
        """
        self._require_open()
        return await self._begin(self.settings(changes), None)

    def settings(self, changes: dict[str, object]) -> VisitsConfig:
        """The configuration's settings with changes; those of a run that is not the configuration's own.

        Raises:
            pydantic.ValidationError: they do not fit together.
        """
        return with_changes(self._loaded.config.visits, changes).model_copy(update={"start": False})

    async def stop(self) -> VisitsStatus:
        """End the run after the visit that is under way; return how it is then, without waiting for its end.

        Raises:
            KeyError: none runs.
        """
        run, process = self.running, self._process
        if run is None or process is None:
            raise KeyError("no visits run")
        if not process.stopping.is_set():
            run.state = RunState.STOPPING
            process.stop()
        return run.status()

    def status(self) -> VisitsStatus | None:
        """How the run is, or how the last one since the daemon started ended."""
        return None if self.run is None else self.run.status()

    def past(self) -> list[VisitsSummary]:
        """The archived runs, the newest first, without the one that is under way. Not for the event loop."""
        running = self.running
        return [summary for summary in self.archive.summaries() if running is None or summary.id != running.name]

    # --- starting and ending -------------------------------------------------------------------------------------

    def _left_behind(self) -> VisitsRun | None:
        """The newest run, where it was cut off by the end of the daemon that ran it."""
        for name in self.archive.names()[:1]:
            with contextlib.suppress(OSError, ValueError):
                run = self.archive.read(name)
                return run if run.in_daemon and run.state in (RunState.RUNNING, RunState.INTERRUPTED) else None
        return None

    async def _begin(self, settings: VisitsConfig, before: VisitsRun | None) -> VisitsStatus:
        async with self._starting:
            if await self._others_end() is not None:
                raise WorkloadBusy("visits run already", "stop them first, or wait for their end")
            lock = ExitStack()
            self.run = run = await asyncio.to_thread(self._prepared, lock, settings, before)
            database, password = self._loaded.config.database, self._loaded.password
            spec = spec_of(database, settings, state_dir=self._loaded.state_dir, password=password, gives_way=True)
            self._process = visits_process(spec, self.archive.folder / "process.log")
            self._start(self._carry_out(run, self._process, lock), "visits")
        how = "go on" if before is not None else "begin"
        self._events.info(
            f"visits {how}: {settings.visits:,} in all, {settings.index_mode}, {settings.cadence} cadence,"
            f" schema {settings.schema_name}",
        )
        return run.status()

    def _prepared(self, lock: ExitStack, settings: VisitsConfig, before: VisitsRun | None) -> RunProgress:
        """A run with its files open; `lock` holds the folder."""
        try:
            with ExitStack() as stack:
                require_extra("visits", "a run", VISITS_NEED)
                stack.enter_context(self.archive.locked())
                run = self._new_run(settings, before)
                run.begin()
                lock.enter_context(stack.pop_all())
                return run
        except VisitsInUse as error:
            raise WorkloadBusy(str(error)) from None
        except (CommandFailed, ValueError) as error:
            raise WorkloadRefused(str(error)) from None
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> WorkloadRefused:
        return WorkloadRefused(f"{self.archive.folder}: cannot be written ({reason_of(error)})", "fix that")

    def _new_run(self, settings: VisitsConfig, before: VisitsRun | None) -> RunProgress:
        target = f"{self._loaded.target}, schema {settings.schema_name}"
        if before is None:
            return RunProgress(self.archive, self.archive.new_id(), settings, target=target, in_daemon=True)
        series = Series()
        series.take(self.archive.rows(before.id))
        return RunProgress(
            self.archive,
            before.id,
            settings,
            target=target,
            in_daemon=True,
            series=series,
            compactions=before.compactions,
            began_ns=before.began_ns,
        )

    async def _carry_out(self, run: RunProgress, process: WorkloadProcess[Message], lock: ExitStack) -> None:
        outcome: Outcome = RunState.INTERRUPTED, None
        try:
            outcome = await self._to_the_end(run, process)
        finally:
            # In a thread, which ends also when the daemon does: the daemon waits for it.
            try:
                await asyncio.to_thread(self._write, run, outcome, lock)
            except OSError as error:
                self._events.error(f"visits {run.name} are not archived: {reason_of(error)}")
            run.state, run.problem = outcome
            self._say_end(run)

    def _write(self, run: RunProgress, outcome: Outcome, lock: ExitStack) -> None:
        with lock:
            run.end(run.record(*outcome, **facts_of(run.settings, run.done, self._facts())))

    async def _to_the_end(self, run: RunProgress, process: WorkloadProcess[Message]) -> Outcome:
        """Follow one process after another, until a run ends."""

        def failed(problem: str, pause_s: float) -> None:
            run.state, run.problem = RunState.STARTING, problem
            self._events.error(f"visits failed: {problem}; they go on in {pause_s:g} s")

        try:
            async with aclosing(process.supervised(failed, self._pause_s)) as messages:
                async for message in messages:
                    await run.take(message)
                    self._say(run, message)
        except ProcessRefused as error:
            return RunState.FAILED, str(error)
        except OSError as error:
            return RunState.FAILED, str(self._unwritable(error))
        return (RunState.STOPPED if run.done < run.settings.visits else RunState.FINISHED), None

    # --- events --------------------------------------------------------------------------------------------------

    def _say(self, run: RunProgress, message: Message) -> None:
        limit_s = run.settings.limit_s
        if isinstance(message, Begun) and run.done:
            self._events.info(f"visits: {run.done:,} are in the database already")
        elif isinstance(message, Visited) and message.visit.visit_s > limit_s:
            text = f"visit {message.visit.visit:,} took {message.visit.visit_s:.3g} s, more than {limit_s:g} s"
            self._events.warning_seldom("slow visit", text)
        elif isinstance(message, Lost):
            text = (
                f"the database has lost visits that it had acknowledged: they are done again from {message.done:,} on"
            )
            self._events.warning(text)
        elif isinstance(message, Troubled):
            self._events.warning_seldom("visits wait", f"visits wait: {message.problem}")

    def _say_end(self, run: RunProgress) -> None:
        done = f"{run.done:,} of {run.settings.visits:,} visits are done"
        if run.state is RunState.FAILED:
            self._events.error(f"visits failed: {run.problem}; {done}")
            return
        how = {RunState.FINISHED: "ended", RunState.STOPPED: "were stopped"}.get(run.state, "end with the daemon")
        self._events.info(f"visits {how}: {done}")


# --- files of an archived run ----------------------------------------------------------------------------------------

CHUNK = 2**20


class RunFiles:
    """Each is made by a process of its own, one at a time: their libraries and their work stay out of the logger.

    Every method raises FileNotFoundError where the run is not in the archive, and CommandEnded where the file cannot be
    made.
    """

    def __init__(self, archive: VisitsArchive) -> None:
        self._archive = archive
        self._making = asyncio.Lock()

    async def csv(self, name: str) -> tuple[int, AsyncIterator[bytes]]:
        """The CSV as far as it is written: how many bytes it has, and these in chunks."""
        path = self._archive.path(name, CSV)
        size = (await asyncio.to_thread(path.stat)).st_size
        return size, _chunks(path, size)

    async def parquet(self, name: str) -> bytes:
        """The same as Parquet."""
        source = self._archive.path(name, CSV)
        await asyncio.to_thread(source.stat)
        async with self._making:
            with tempfile.TemporaryDirectory(prefix="triggerlog-visits-") as folder:
                made = Path(folder) / "visits.parquet"
                command = ("-m", "daemon", "visits", "export", str(source), "--format", "parquet", "-o", str(made))
                await run_command("export", command, Path(folder) / "export.log")
                return await asyncio.to_thread(made.read_bytes)

    async def report(self, name: str) -> bytes:
        """The report as HTML, made again where the run has changed since it was made last."""
        record, made = self._archive.path(name), self._archive.path(name, REPORT)
        async with self._making:
            changed_ns = await asyncio.to_thread(_changed_ns, record, self._archive.path(name, CSV))
            if not made.exists() or made.stat().st_mtime_ns < changed_ns:
                command = ("-m", "benchmarks.visits", str(record), "--output", str(made))
                await run_command("report", command, self._archive.folder / "report.log")
            return await asyncio.to_thread(made.read_bytes)


async def _chunks(path: Path, size: int) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while size > 0 and (chunk := await asyncio.to_thread(file.read, min(CHUNK, size))):
            size -= len(chunk)
            yield chunk


def _changed_ns(record: Path, csv: Path) -> int:
    """When the record or the visits changed last."""
    changed = record.stat().st_mtime_ns
    return max(changed, csv.stat().st_mtime_ns) if csv.exists() else changed

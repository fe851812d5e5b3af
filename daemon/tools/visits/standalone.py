"""Visits by themselves, without a daemon: `triggerlog visits run` in a terminal."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing, contextmanager

from rich.console import Console

from backends import open_visit_store
from backends.base import StoreError
from daemon.core.outcome import CommandFailed, reason_of
from daemon.tools.console.progress import ProgressBar
from daemon.tools.place import Place, server_facts
from daemon.tools.visits.tables import left_words, state_words, visit_words
from daemon.workloads.frame.runner import ProcessFailed
from daemon.workloads.visits.archive import FOLDER, VisitsArchive, VisitsInUse, read_run
from daemon.workloads.visits.facts import facts_of
from daemon.workloads.visits.messages import spec_of, visits_process
from daemon.workloads.visits.progress import RunProgress
from schemas.api.visits import VisitsRun
from schemas.config.visits import VisitsConfig
from schemas.states import RunState

COUNT_WITHIN_S = 60.0
"""Time for counting the rows at the end; after it the server's estimates have to do."""
LINES = 10
"""Where there is no terminal, so many lines show how far it is."""


class Interrupted(CommandFailed):
    """Ctrl-C twice: it ended at once."""


async def run_standalone(place: Place, settings: VisitsConfig, console: Console) -> VisitsRun:
    """Run visits until all are done, or until Ctrl-C; return its record, with the visits.

    Raises:
        CommandFailed: it cannot be done.
        StoreError: the database does not do it.
    """
    archive = VisitsArchive(place.state_dir / FOLDER)
    target = f"{place.target}, schema {settings.schema_name}"
    try:
        with ExitStack() as stack:
            stack.enter_context(archive.locked())
            run = RunProgress(archive, archive.new_id(), settings, target=target)
            stack.callback(run.close)
            run.begin()
            async with server_facts(place, "visits") as facts:
                try:
                    state, problem = await _carried_out(place, run, console)
                except Interrupted:
                    run.end(run.record(RunState.STOPPED, **facts_of(settings, run.done, facts)))
                    raise
                counts = await _counts(place, settings, console) if run.done else {}
            record = run.record(state, problem, counts=counts, **facts_of(settings, run.done, facts))
            run.end(record)
            if state is RunState.FAILED:
                done = f"{run.done:,} visits are done, and the same command goes on after them" if run.done else ""
                raise CommandFailed("; ".join(part for part in (problem, done) if part))
            return read_run(archive.path(run.name)) if len(run.series) else record
    except VisitsInUse as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        raise CommandFailed(f"--folder: {archive.folder} cannot be used ({reason_of(error)})") from None


async def _carried_out(place: Place, run: RunProgress, console: Console) -> tuple[RunState, str | None]:
    """Follow the process to its end; return how that was, and of a failure why."""
    spec = spec_of(place.database, run.settings, state_dir=place.state_dir, password=place.password)
    process = visits_process(spec, place.state_dir / FOLDER / "process.log")
    with _stopped_by_signal(process.stopping, process.stop, console), _Bar(run, console) as bar:
        try:
            async with aclosing(process.messages()) as messages:
                async for message in messages:
                    await run.take(message)
                    bar.take(stopping=process.stopping.is_set())
        except ProcessFailed as error:
            return RunState.FAILED, str(error)
    return (RunState.STOPPED if run.done < run.settings.visits else RunState.FINISHED), None


@contextmanager
def _stopped_by_signal(stopping: asyncio.Event, stop: Callable[[], None], console: Console) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM stops it; the second ends it at once, which does no harm but to the visit under way.

    Raises:
        Interrupted: there was a second one.
    """
    loop, own = asyncio.get_running_loop(), asyncio.current_task()
    assert own is not None

    def on_signal() -> None:
        if stopping.is_set():
            own.cancel()
            return
        console.print("Stopping after the visit that is under way; Ctrl-C again stops at once.", highlight=False)
        stop()

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    except asyncio.CancelledError:
        if not stopping.is_set():
            raise
        raise Interrupted(
            "stopped at once; the visit that was under way is done again by the same command, which goes on from there"
        ) from None
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _counts(place: Place, settings: VisitsConfig, console: Console) -> dict[str, int]:
    """Rows of each table; empty when counting takes too long."""
    store = open_visit_store(place.database, settings, state_dir=place.state_dir, password=place.password)
    try:
        async with asyncio.timeout(COUNT_WITHIN_S):
            await store.connect()
            return dict(await store.counts())
    except (StoreError, TimeoutError) as error:
        console.print(f"The rows are not counted ({error or 'it takes too long'}).", highlight=False)
        return {}
    finally:
        with contextlib.suppress(StoreError):
            await store.close()


class _Bar(ProgressBar):
    """A progress bar on a terminal; elsewhere a line now and then, and for each problem."""

    def __init__(self, run: RunProgress, console: Console) -> None:
        super().__init__(console, "starting", seconds_left=lambda: self._left_s)
        self._run = run
        self._console = console
        self._left_s: float | None = None
        self._printed = 0
        self._problem: str | None = None

    def take(self, *, stopping: bool) -> None:
        """Show how far it is."""
        status = self._run.status()
        self._left_s = status.remaining_s
        counted = f"{status.done:,}/{status.visits:,}"
        words = status.problem or visit_words(status.last)
        state = "stopping" if stopping else state_words(status)
        self.show(state, f"{counted} {words}", done=status.done, total=status.visits)
        part = status.done * LINES // status.visits
        if not self._console.is_terminal and (part > self._printed or status.problem not in (None, self._problem)):
            self._printed = part
            line = " · ".join(part for part in (words, "" if status.problem else left_words(status)) if part)
            self._console.print(f"{counted} {line}", highlight=False, soft_wrap=True)
        self._problem = status.problem

"""Visits by themselves, without a daemon: `triggerlog visits run` in a terminal."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from backends import open_store, open_visit_store
from backends.base import StoreError, StoreFacts
from daemon.core.outcome import CommandFailed, reason_of
from daemon.tools.visits.words import left_words, visit_words
from daemon.workloads.visits.course import Course
from daemon.workloads.visits.facts import facts_of
from daemon.workloads.visits.following import VisitsFailed, follow, spec_of
from daemon.workloads.visits.kept import CUT_OFF_ALONE, FOLDER, STOPPED, Kept, VisitsInUse
from schemas.api.visits import VisitsRun
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig

COUNT_WITHIN_S = 60.0
"""Time for counting the rows at the end; after it the server's estimates have to do."""
TELL_EVERY = 10
"""Where there is no terminal, so many lines tell how far it is."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which database, and where a run is kept. state_dir: absolute; an embedded PostgreSQL runs there."""

    database: DatabaseConfig
    password: str | None
    state_dir: Path
    target: str


class Interrupted(CommandFailed):
    """Ctrl-C twice: it ended at once."""


async def run_alone(place: Place, settings: VisitsConfig, console: Console) -> VisitsRun:
    """Run visits until all are done, or until Ctrl-C; return what is kept of it, with the visits.

    Raises:
        CommandFailed: it cannot be done.
        StoreError: the database does not do it.
    """
    kept = Kept(place.state_dir / FOLDER)
    try:
        with ExitStack() as stack:
            stack.enter_context(kept.alone())
            course = Course(kept, kept.new_id(), settings, target=f"{place.target}, schema {settings.schema_name}")
            stack.callback(course.close)
            course.begin(CUT_OFF_ALONE)
            async with _server(place) as facts:
                try:
                    problem = await _carried_out(place, course, console)
                except Interrupted:
                    course.end(course.run(STOPPED, **facts_of(settings, course.done, facts)))
                    raise
                counts = await _counts(place, settings, console) if course.done else {}
            # What `end` writes has the visits by way of the CSV.
            run = course.run(problem, counts=counts, **facts_of(settings, course.done, facts))
            course.end(run)
            _see_outcome(course, problem)
            if not len(course.series):
                return run
            return kept.read(course.name)
    except VisitsInUse as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        raise CommandFailed(f"--folder: {kept.folder} cannot be used ({reason_of(error)})") from None


def _see_outcome(course: Course, problem: str | None) -> None:
    if problem not in (None, STOPPED):
        done = f"{course.done:,} visits are done, and the same command goes on after them" if course.done else ""
        raise CommandFailed("; ".join(part for part in (problem, done) if part))


@asynccontextmanager
async def _server(place: Place) -> AsyncIterator[StoreFacts]:
    """Keep an embedded server running meanwhile; tell what the server says of itself."""
    store = open_store(
        place.database, logger="visits", groups={}, layouts={}, state_dir=place.state_dir, password=place.password
    )
    try:
        yield await store.facts()
    finally:
        await store.close()


async def _carried_out(place: Place, course: Course, console: Console) -> str | None:
    """Follow the process to its end; return why it ended early."""
    spec = spec_of(place.database, course.settings, state_dir=place.state_dir, password=place.password)
    log = place.state_dir / FOLDER / "process.log"
    with _told_to_stop(console) as stop, _Bar(course, console) as bar:
        try:
            async with aclosing(follow(spec, log, stop=stop)) as messages:
                async for message in messages:
                    await course.take(message)
                    bar.show(stopping=stop.is_set())
        except VisitsFailed as error:
            return str(error)
    return STOPPED if course.done < course.settings.visits else None


@contextmanager
def _told_to_stop(console: Console) -> Iterator[asyncio.Event]:
    """Set by the first Ctrl-C or SIGTERM; the second ends it at once, which does no harm but to the visit under way."""
    stop, loop, own = asyncio.Event(), asyncio.get_running_loop(), asyncio.current_task()
    assert own is not None

    def told() -> None:
        if stop.is_set():
            own.cancel()
            return
        console.print("Stopping after the visit that is under way; Ctrl-C again stops at once.", highlight=False)
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, told)
    try:
        yield stop
    except asyncio.CancelledError:
        if not stop.is_set():
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


class _Bar:
    """A progress bar on a terminal; elsewhere a line now and then, and for each problem."""

    def __init__(self, course: Course, console: Console) -> None:
        self._course = course
        self._console = console
        columns: tuple[ProgressColumn, ...] = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            _Words(),
        )
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("starting", total=course.settings.visits, words="")
        self._told = 0
        self._problem: str | None = None
        self._told_of: Callable[[], int] = lambda: course.done * TELL_EVERY // course.settings.visits

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, *, stopping: bool) -> None:
        """Tell how far it is."""
        status = self._course.status()
        state = "stopping" if stopping else status.state
        words = status.problem or " · ".join(part for part in (visit_words(status.last), left_words(status)) if part)
        self._progress.update(self._task, description=state, completed=status.done, words=words)
        news = self._told_of() > self._told or status.problem not in (None, self._problem)
        self._problem = status.problem
        if not self._console.is_terminal and news:
            self._told = self._told_of()
            self._console.print(f"{status.done:,}/{status.visits:,} {words}", highlight=False, soft_wrap=True)


class _Words(ProgressColumn):
    """What the last visit took, and the time left."""

    def render(self, task: Task) -> Text:
        """As text that is cut where the terminal ends."""
        return Text(str(task.fields["words"]), style="dim", overflow="ellipsis", no_wrap=True)

"""Visits and snapshot readers by themselves, without a daemon: `run` in a terminal."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from backends import open_store, open_visit_store
from backends.base import StoreError, StoreFacts
from daemon.core.configuration import LoadedConfig
from daemon.core.outcome import CommandFailed, reason_of
from daemon.tools.console import ProgressBar, stopped_by_signal
from daemon.tools.workloads.tables import activity, left_words, state_words, visit_words
from daemon.workloads.frame.runner import ProcessFailed
from daemon.workloads.snapshots.messages import Spec
from daemon.workloads.snapshots.progress import SnapshotsProgress
from daemon.workloads.snapshots.runner import facts_of, follow, snapshots_archive, snapshots_process
from daemon.workloads.visits.archive import FOLDER, VisitsArchive, VisitsInUse, read_run
from daemon.workloads.visits.facts import facts_of as facts_of_visits
from daemon.workloads.visits.messages import spec_of, visits_process
from daemon.workloads.visits.progress import RunProgress
from schemas.api.snapshots import SnapshotSettings, SnapshotsRun, SnapshotsStatus
from schemas.api.visits import VisitsRun
from schemas.checking.problems import ConfigError, problems, without_passwords
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.states import RunState

COUNT_WITHIN_S = 60.0
"""Time for counting the rows of visits at the end; after it the server's estimates have to do."""
LINES = 10
"""Where there is no terminal, so many lines show how far a run, or each part of it, is."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which database, and where a run is archived. state_dir: absolute; an embedded PostgreSQL runs there."""

    database: DatabaseConfig
    password: str | None
    state_dir: Path
    target: str


def place_of(
    loaded: LoadedConfig | None, dsn: str | None, password_env: str | None, folder: Path | None, *, otherwise: Path
) -> Place:
    """Where the options --dsn, --password-env and --folder say, and else a configuration.

    otherwise: the folder where neither names one.

    Raises:
        CommandFailed, ConfigError: they do not fit together, or cannot be used.
    """
    if loaded is not None and dsn is None:
        if password_env is not None:
            raise CommandFailed("--password-env: is of --dsn; leave it out, CONFIG says where its password is")
        state = loaded.state_dir if folder is None else folder.absolute()
        if loaded.config.database.dsn is None and folder is not None:
            raise CommandFailed("--folder: CONFIG's PostgreSQL runs below its state_dir; leave it out, or give --dsn")
        return Place(database=loaded.config.database, password=loaded.password, state_dir=state, target=loaded.target)
    state = (loaded.state_dir if loaded is not None and folder is None else folder or otherwise).absolute()
    try:
        database = DatabaseConfig(dsn=dsn, password_env=password_env)
    except ValidationError as error:
        raise ConfigError(problems(DatabaseConfig, error.errors(include_url=False))) from None
    target = f"embedded PostgreSQL under {state}" if dsn is None else without_passwords(dsn)
    return Place(database=database, password=_password(password_env), state_dir=state, target=target)


def _password(name: str | None) -> str | None:
    from daemon.web.secrets import from_either  # noqa: PLC0415

    return from_either(name, None, os.environ, field="password")


@asynccontextmanager
async def server_facts(place: Place, logger: str) -> AsyncIterator[StoreFacts]:
    """Keep an embedded server running meanwhile; tell what the server says of itself."""
    store = open_store(
        place.database, logger=logger, groups={}, layouts={}, state_dir=place.state_dir, password=place.password
    )
    try:
        yield await store.facts()
    finally:
        await store.close()


async def run_snapshots(place: Place, settings: SnapshotSettings, command: str, console: Console) -> SnapshotsRun:
    """Run snapshot readers to their end, or until Ctrl-C; return the record.

    Raises:
        CommandFailed: it cannot be done.
        StoreError: the database does not do it.
    """
    archive = snapshots_archive(place.state_dir)
    run = SnapshotsProgress(archive.new_id(), settings, target=place.target, command=command)
    try:
        archive.folder.mkdir(parents=True, exist_ok=True)
        async with server_facts(place, "snapshots") as facts:
            await _snapshots_carried_out(place, run, console)
            record = run.record(**facts_of(facts))
        archive.write(run.name, record)
        archive.remove_old()
    except OSError as error:
        raise CommandFailed(f"--folder: {archive.folder} cannot be used ({reason_of(error)})") from None
    if run.state is RunState.FAILED:
        raise CommandFailed(f"{run.problem}; what is loaded stays, and the same command goes on")
    return record


async def _snapshots_carried_out(place: Place, run: SnapshotsProgress, console: Console) -> None:
    spec = Spec(
        parent=os.getpid(),
        database=place.database,
        password=place.password,
        state_dir=place.state_dir,
        snapshots=run.settings,
    )
    process = snapshots_process(spec)
    with stopped_by_signal() as stop, _SnapshotsBar(console, run.status) as bar:
        stopping = asyncio.create_task(_stop(stop, process.stop))
        try:
            await follow(run, process, lambda _: bar.take())
        finally:
            stopping.cancel()


async def _stop(wanted: asyncio.Event, stop: Callable[[], None]) -> None:
    await wanted.wait()
    stop()


class _SnapshotsBar(ProgressBar):
    """A progress bar on a terminal; elsewhere a line now and then."""

    def __init__(self, console: Console, status: Callable[[], SnapshotsStatus]) -> None:
        super().__init__(console, "starting", seconds_left=lambda: self._left_s)
        self._console, self._status = console, status
        self._left_s: float | None = None
        self._printed = ("", 0)

    def take(self) -> None:
        """Show how far it is."""
        status = self._status()
        self._left_s = status.remaining_s
        what, words, done, total = activity(status)
        self.show(what, words, done=done, total=total or None)
        part = (what, LINES * done // total if total else 0)
        if not self._console.is_terminal and part != self._printed:
            self._printed = part
            self._console.print(f"{what} {words}", highlight=False, soft_wrap=True)


class Interrupted(CommandFailed):
    """Ctrl-C twice: it ended at once."""


async def run_visits(place: Place, settings: VisitsConfig, console: Console) -> VisitsRun:
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
                    state, problem = await _visits_carried_out(place, run, console)
                except Interrupted:
                    run.end(run.record(RunState.STOPPED, **facts_of_visits(settings, run.done, facts)))
                    raise
                counts = await _counts(place, settings, console) if run.done else {}
            record = run.record(state, problem, counts=counts, **facts_of_visits(settings, run.done, facts))
            run.end(record)
            if state is RunState.FAILED:
                done = f"{run.done:,} visits are done, and the same command goes on after them" if run.done else ""
                raise CommandFailed("; ".join(part for part in (problem, done) if part))
            return read_run(archive.path(run.name)) if len(run.series) else record
    except VisitsInUse as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        raise CommandFailed(f"--folder: {archive.folder} cannot be used ({reason_of(error)})") from None


async def _visits_carried_out(place: Place, run: RunProgress, console: Console) -> tuple[RunState, str | None]:
    """Follow the process to its end; return how that was, and of a failure why."""
    spec = spec_of(place.database, run.settings, state_dir=place.state_dir, password=place.password)
    process = visits_process(spec, place.state_dir / FOLDER / "process.log")
    with _stopped_by_signal(process.stopping, process.stop, console), _VisitsBar(run, console) as bar:
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


class _VisitsBar(ProgressBar):
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

"""Snapshot readers by themselves, without a daemon: `triggerlog snapshots run` in a terminal."""

import asyncio
import os
from collections.abc import Callable

from rich.console import Console

from backends.base import StoreFacts
from daemon.core.outcome import CommandFailed, reason_of
from daemon.tools.console.progress import ProgressBar
from daemon.tools.interference.follow import stopped_by_signal
from daemon.tools.place import Place, server_facts
from daemon.tools.snapshots.tables import activity
from daemon.workloads.snapshots.messages import Spec
from daemon.workloads.snapshots.progress import SnapshotsProgress
from daemon.workloads.snapshots.runner import facts_of, follow, snapshots_archive, snapshots_process
from schemas.api.snapshots import SnapshotSettings, SnapshotsRun, SnapshotsStatus
from schemas.states import RunState

LINES = 10
"""Where there is no terminal, so many lines show how far each part of it is."""


async def run_standalone(place: Place, settings: SnapshotSettings, command: str, console: Console) -> SnapshotsRun:
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
            await _carried_out(place, run, console)
            record = _record(run, facts)
        archive.write(run.name, record)
        archive.remove_old()
    except OSError as error:
        raise CommandFailed(f"--folder: {archive.folder} cannot be used ({reason_of(error)})") from None
    if run.state is RunState.FAILED:
        raise CommandFailed(f"{run.problem}; what is loaded stays, and the same command goes on")
    return record


def _record(run: SnapshotsProgress, facts: StoreFacts) -> SnapshotsRun:
    return run.record(**facts_of(facts))


async def _carried_out(place: Place, run: SnapshotsProgress, console: Console) -> None:
    spec = Spec(
        parent=os.getpid(),
        database=place.database,
        password=place.password,
        state_dir=place.state_dir,
        snapshots=run.settings,
    )
    process = snapshots_process(spec)
    with stopped_by_signal() as stop, _Bar(console, run.status) as bar:
        stopping = asyncio.create_task(_stop(stop, process.stop))
        try:
            await follow(run, process, lambda _: bar.take())
        finally:
            stopping.cancel()


async def _stop(wanted: asyncio.Event, stop: Callable[[], None]) -> None:
    await wanted.wait()
    stop()


class _Bar(ProgressBar):
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

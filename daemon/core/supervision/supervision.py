"""What the service manager hears while the daemon runs: how it is, and that the pipeline makes progress."""

import asyncio
import faulthandler
from collections.abc import Callable

from daemon.core.monitoring.events import Events
from daemon.core.supervision.notify import Notifier
from daemon.core.supervision.progress_watch import Part, ProgressWatch, Stuck
from schemas.api.status import Status
from schemas.states import DaemonState

LOOK_S = 1.0
"""Time between two looks, while no watchdog asks for less."""

START_MORE_S = 60.0
"""While the daemon waits for its database it asks for so much more time, again and again."""

_WORDS = {
    DaemonState.STARTING: "starting",
    DaemonState.RUNNING: "running",
    DaemonState.STORE_AWAY: "database away, readings wait",
    DaemonState.STOPPING: "stopping",
}


class Supervision:
    """Feeds the watchdog from the progress of the pipeline, and keeps the status line fresh.

    The watchdog hears nothing while a part of the pipeline is stuck. A part is called stuck after half the watchdog's
    time, so that the service manager acts after one and a half times of it (a committer has the time of its attempts
    on top).

    Nothing that is for people stands between the pipeline and the watchdog: the status line may fail.

    state: of the daemon. line: how it is, in words; empty where nobody knows. parts: what has to move; asked while the
        daemon is `running` only, the start and the end have limits of their own.
    """

    def __init__(
        self,
        notifier: Notifier,
        state: Callable[[], DaemonState],
        line: Callable[[], str],
        parts: Callable[[], list[Part]],
        events: Events,
    ) -> None:
        self._notifier = notifier
        self._state, self._line = state, line
        self._parts = parts
        self._events = events
        limit_s = notifier.watchdog_s
        self._every_s = LOOK_S if limit_s is None else min(LOOK_S, limit_s / 4)
        self._watch = None if limit_s is None else ProgressWatch(limit_s / 2)
        self._is_stuck = False

    async def run(self) -> None:
        """Look until cancelled; without a service manager that is over at once."""
        if not self._notifier.is_wanted:
            return
        if self._watch is not None:
            # The watchdog ends a stuck process with SIGABRT: let its log then show where each thread was.
            faulthandler.enable()
        while True:
            self.look()
            await asyncio.sleep(self._every_s)

    def look(self) -> None:
        """Say how it is now, and feed the watchdog if nothing is stuck."""
        state = self._state()
        self._notifier.status(self._line())
        if state is DaemonState.STARTING:
            self._notifier.extend(START_MORE_S)
        if self._watch is None:
            return
        is_running = state in (DaemonState.RUNNING, DaemonState.STORE_AWAY)
        stuck = self._watch.look(self._parts() if is_running else (), asyncio.get_running_loop().time())
        self._say(stuck)
        if not stuck:
            self._notifier.progress()

    def _say(self, stuck: list[Stuck]) -> None:
        if stuck and not self._is_stuck:
            text = ", ".join(map(str, stuck))
            self._events.error(f"{text}: the watchdog is not fed, and will start the daemon again")
        elif self._is_stuck and not stuck:
            self._events.info("what was stuck moves again, the watchdog is fed")
        self._is_stuck = bool(stuck)


def status_line(status: Status) -> str:
    """How the daemon is, in a line: state, rates, and what waits. Rates are per second."""
    state = _WORDS[status.state]
    if not status.groups:
        problem, kept = status.store.problem, sum(intake.waiting for intake in status.intakes.values())
        if kept:
            return f"{state}: {kept:,} readings wait in the journal for the database ({problem})"
        return state if problem is None or status.store.available else f"{state}: waits for the database ({problem})"
    groups = status.groups.values()
    triggers = sum(group.triggers.rate for group in groups)
    commits = sum(group.triggers.commit_rate for group in groups)
    readings = sum(group.readings.rate for group in groups)
    waiting = sum(group.readings.waiting for group in groups)
    journal = sum(group.journal_mib for group in groups)
    return (
        f"{state}: {triggers:,.0f} triggers/s in, {commits:,.0f} committed, {readings:,.0f} readings/s; "
        f"{waiting:,} readings wait, {journal:,.0f} MiB in the journal"
    )

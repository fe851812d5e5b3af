"""What an operator reads of a group's pipeline: every event that it reports, in one place."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from daemon.core.monitoring.events import Events
from daemon.core.outside import monotonic_ns
from daemon.core.words import utc
from daemon.pipeline.closed_blocks import words_of
from daemon.pipeline.dead_letters import Letter, Outcome
from daemon.pipeline.files import Amount
from daemon.pipeline.losses import Losses
from schemas.batch import Durability
from schemas.readings import Array

QUIET_NS = 10_000_000_000
"""Backpressure is reported when there was none for so long; dead letters that follow others sooner, with the next."""

REFUSED_EVERY_NS = 60_000_000_000
"""Readings that do not fit aside are reported so seldom, with how many there were since: one sender can provoke it."""

LONG_NS = 1_000_000_000
"""The end of backpressure is reported when it lasted so long."""


class Announcements:
    """Reports the events of one group's pipeline; what may come many times a second is reported seldom.

    reports: whether it is one that reports on change.
    """

    def __init__(self, group: str, events: Events, *, reports: bool = False) -> None:
        self._group = group
        self._reports = reports
        self._events = events
        self._backpressure_ns = -QUIET_NS  # when it began or ended last
        self._rejected_ns = -QUIET_NS
        self._refused_ns = -REFUSED_EVERY_NS
        self._refused = 0  # readings that did not fit aside, reported
        self._rejected = 0  # dead letters not reported yet
        self._newest = (0, 0, 0)  # run, number and time of the highest trigger closed
        self._lost_behind: tuple[int, int, int] | None = None  # what the database lost came after that trigger

    def _info(self, text: str) -> None:
        self._events.info(f"group {self._group}: {text}")

    def _warning(self, text: str) -> None:
        self._events.warning(f"group {self._group}: {text}")

    def _error(self, text: str) -> None:
        self._events.error(f"group {self._group}: {text}")

    def run_restarted(self, ended: int, began: int) -> None:
        """Trigger numbers start again. A sender can provoke this at will."""
        self._events.warning_seldom(
            f"runs of {self._group}",
            f"group {self._group}: trigger numbers start again; run {ended} ended, run {began} began",
        )

    def epochs_change(self) -> None:
        """Report that senders change the epoch with each trigger."""
        self._events.warning_seldom(
            f"epochs of {self._group}",
            f"group {self._group}: the epoch changes with each trigger, and each is a run of its own; an epoch counts"
            " restarts of the timing system: senders must keep it between two of these, or send 0",
        )

    def run_announced(self, run: int | None, epoch: int) -> None:
        """Report that a restart of the timing system was announced; without a run it begins later."""
        if run is not None:
            self._info(f"a restart was announced; run {run} has its epoch")
        elif epoch:
            self._info(f"a restart was announced; the database has triggers of the run of epoch {epoch} already")
        else:
            self._info("a restart was announced; a new run begins with the next reading")

    def remember(self, rows: Array) -> None:
        """These triggers are closed: ledger dtype, ascending."""
        if len(rows) and (found := _place(rows[-1])) > self._newest:
            self._newest = found

    def lost_at_start(self) -> None:
        """Between the triggers that are remembered and the next, the database had some that it lost."""
        self._lost_behind = self._newest

    def closed(self, rows: Array) -> None:
        """These triggers were closed just now: ledger dtype, ascending. Report the numbers skipped before them."""
        behind = np.flatnonzero(rows["skipped"])
        if len(behind):
            first = int(behind[0])
            before = _place(rows[first - 1]) if first else self._newest
            self._skipped(rows[first], before, len(behind) - 1, int(rows["skipped"].sum()))
        self.remember(rows)

    def _skipped(self, row: Any, before: tuple[int, int, int], more: int, every: int) -> None:
        run, trigger, time_ns = _place(row)
        count = int(row["skipped"])
        when = f"before {utc(time_ns)}"
        if before[:2] == (run, trigger - count - 1):
            when = f"between {utc(before[2])} and {utc(time_ns)}"
        numbers = f"numbers {trigger - count} to {trigger - 1}" if count > 1 else f"number {trigger - 1}"
        why = "never came"
        if before == self._lost_behind:
            why = "are not there, and may be among what the database lost"
        further = f"; {every - count} more in {more} gaps behind" if more else ""
        self._events.warning_seldom(
            f"skipped by {self._group}",
            f"group {self._group}: trigger {numbers} of run {run} {why}: {count} {when}{further}",
        )

    def lost_by_sender(self, readings: int) -> None:
        """A sender went on behind readings of which nothing is known here, and that it has no more."""
        self._events.warning_seldom(
            f"lost by senders of {self._group}",
            f"group {self._group}: a sender no longer has {readings} readings that are not here; they are lost, unless"
            " another state folder has them",
        )

    def backpressure(self, is_full: bool) -> None:
        """Senders are held back from now on, or no longer: with a sender that is always faster, many times a second."""
        moment = monotonic_ns()
        since_ns = moment - self._backpressure_ns
        if is_full and since_ns > QUIET_NS:
            self._warning("the backlog is full, senders are held back")
        elif not is_full and since_ns > LONG_NS:
            self._info(f"senders were held back for {since_ns / 1e9:.1f} s")
        self._backpressure_ns = moment

    def left(self, readings: int, within_s: float, *, in_journal: bool) -> None:
        """So many readings are not committed at the end."""
        if not readings:
            return
        text = f"{readings} readings could not be committed within {within_s:g} s and"
        if in_journal:
            self._warning(f"{text} stay in the journal, and are committed after the next start")
        else:
            self._error(f"{text} are not in the database; TCP senders that ask for acknowledgements still have theirs")

    def refused_early(self, reason: str) -> None:
        """Readings are refused before there is a pipeline: said once of each reason."""
        self._warning(f"readings are refused ({reason}), since the database cannot be used yet; the status counts them")

    def never_counted(self, losses: Losses, unsynced: int) -> None:
        """Report what no later process knows of. unsynced: readings that are not in the log either."""
        if unsynced:
            self._events.error(
                f"group {self._group}: {unsynced} readings that came since the start are not in the journal, and"
                " nowhere else; TCP senders that ask for acknowledgements still have theirs"
            )
        found = [f"{count} refused ({reason})" for reason, count in losses.dropped.items() if count]
        found += [f"{count} lost on their way ({reason})" for reason, count in losses.lost.items() if count]
        if found:
            self._warning(f"of readings since the start, while the database did not answer: {', '.join(found)}")

    def left_unwritten(self, readings: int) -> None:
        """So many readings are not in the journal at the end, and may be lost by the database, or not be there yet."""
        self._error(
            f"{readings} readings that came last are not in the journal, which could not be written: those that were"
            " committed are lost if the database's server has crashed since, or crashes within the next moments; TCP"
            " senders that ask for acknowledgements still have the others"
        )

    def position_gone(self) -> None:
        """The database has all that it acknowledged, and not how far that is: somebody removed the row."""
        self._warning("its position in the database was gone, and is written again")

    def commits_lost(self, durability: Durability) -> None:
        """The database no longer has all that it acknowledged."""
        self._warning(
            f"the database no longer has all that it acknowledged ({durability}); what the journal has of it is"
            " committed again"
        )

    def readings_lost(self, durability: Durability, readings: int) -> None:
        """So many readings that the database has lost were not in the log any more."""
        self._error(
            f"the database no longer has all that it acknowledged ({durability}); {readings} readings are lost. Was it"
            " restored from a copy, or does its disk keep less than the server believes? See `triggerlog reconcile`"
        )

    def rejected(self, letters: Sequence[Letter]) -> None:
        """The database rejected these, and they are dead letters now."""
        if not letters:
            return
        self._rejected += len(letters)
        moment = monotonic_ns()
        if moment - self._rejected_ns < QUIET_NS:
            return
        which = words_of(letters[0].key, reports=self._reports)
        if self._rejected > 1:
            which = f"{self._rejected:,} {'reports' if self._reports else 'triggers'}, one of them {which}"
        self._error(
            f"the database rejected {which}. What it rejects is kept in the dead letters, see `triggerlog dead-letters"
            f" list FILE`. The reason: {letters[0].reason}"
        )
        self._rejected_ns, self._rejected = moment, 0

    def no_room_aside(self, count: int, *, is_full: bool) -> None:
        """So many readings were refused by now that belong to no trigger; is_full: the dead letters have no room."""
        moment = monotonic_ns()
        if count == self._refused or moment - self._refused_ns < REFUSED_EVERY_NS:
            return
        why = "one instrument had more than 1024 set aside in a second; its trigger numbers or epochs are wrong"
        if is_full:
            why = "the dead letters have no room; export them, and discard them then: `triggerlog dead-letters`"
        self._warning(f"{count - self._refused} readings that belong to no known trigger were refused: {why}")
        self._refused_ns, self._refused = moment, count

    def letters_lost(self, readings: int) -> None:
        """The database was put back, and no longer has these readings of dead letters that were retried."""
        self._error(f"the database has lost {readings} readings of dead letters that it had taken in earlier retries")

    def retried(self, outcome: Outcome) -> None:
        """The dead letters were offered to the database again, through the API."""
        if outcome.letters or outcome.lost or outcome.problem is not None:
            is_good = outcome.committed == outcome.letters and not outcome.lost and outcome.problem is None
            report = self._info if is_good else self._warning
            report(f"dead letters were retried on request: {outcome.summary}")

    def discarded(self, amount: Amount) -> None:
        """The dead letters were discarded through the API."""
        if amount.blocks:
            of = "" if self._reports else f" of {amount.triggers} triggers"
            self._warning(f"{amount.readings} readings{of} were discarded from the dead letters on request")


def _place(row: Any) -> tuple[int, int, int]:
    """Run, number and time of a trigger."""
    return int(row["run"]), int(row["trigger"]), int(row["time_ns"])

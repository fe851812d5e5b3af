"""Assembly of one group: blocks of readings in, closed blocks out."""

from collections.abc import Container, Mapping
from dataclasses import dataclass

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.open_runs import OpenRuns
from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.outcomes import AssemblyCounts, ReadingSet
from daemon.pipeline.assembly.pool import FREE
from daemon.pipeline.assembly.progress import ONE_MOMENT_NS
from daemon.pipeline.assembly.receipts import Receipts
from daemon.pipeline.assembly.routing import Routing
from daemon.pipeline.assembly.runs import Runs
from daemon.pipeline.assembly.screen import Screen
from daemon.pipeline.assembly.sessions import Sessions
from daemon.pipeline.assembly.triggers import Triggers
from schemas.batch import ClosedBlock
from schemas.readings import Array, InstrumentGroup, join
from schemas.sessions import NO_SESSIONS
from schemas.states import AsideReason


@dataclass(frozen=True, kw_only=True)
class InHand:
    """Copies, for whoever cannot wait for a trigger to close.

    run: the run under way. trigger: int64 (t,), the open triggers, ascending. times: int64 ns (t, instruments),
    undefined where not present: bool of that shape. strays: record dtype (s,), readings held back.
    doubles: record dtype (d,), readings refused since the last time because one with their number was there already;
    the newest DOUBLES_KEPT.
    """

    run: int
    trigger: Array
    times: Array
    present: Array
    strays: Array
    doubles: Array


SLICE = 16_384
"""Readings worked on at once: enough to make numpy's fixed costs small, few enough to stay in the cache."""


class Assembly:
    """Puts the readings of a group's triggers together.

    A trigger closes when every instrument is there, or `timeout_ns` after its first reading. What comes for a closed
    trigger within the window is late, and comes out with the trigger's revised ledger row. What can be put nowhere is
    set aside, and comes out as such. Every method that may close triggers returns the closed blocks to commit, in
    order; each is one of the receipts'.

    runs: numbers the runs of all groups.
    history: ledger rows of the newest runs as the store has them, ascending, so that a restarted daemon merges late
        readings and recognises doubles as if it had never stopped.
    epochs: the runs of those that the group had before, of the one that it was in at the end; of one that is not in
        the history nothing is remembered but its run.
    sessions, pinned: what is known of the senders' sessions; see `Sessions`.
    letters: what are dead letters by now; record dtype, shape (n,).
    """

    def __init__(
        self,
        group: InstrumentGroup,
        *,
        timeout_ns: int,
        window: int,
        max_open: int,
        runs: Runs,
        history: Array | None = None,
        epochs: Mapping[int, int] | None = None,
        sessions: Array = NO_SESSIONS,
        letters: Array | None = None,
        pinned: Container[int] = (),
    ) -> None:
        self.group = group
        self.receipts = Receipts()
        self.sessions = Sessions(self.receipts, sessions, pinned=pinned)
        self._letters = ReadingSet(np.empty(0, group.record) if letters is None else letters)
        self._slice = min(SLICE, window // 4)
        self._runs = OpenRuns(group, window, runs, history, epochs or {})
        self._triggers = Triggers(
            group,
            max_open=max_open,
            runs=self._runs,
            receipts=self.receipts,
            sessions=self.sessions,
            letters=self._letters,
        )
        self._screen = screen = Screen(group, self._triggers, self._letters)
        self._routing = Routing(group, self._runs, self._triggers, screen, timeout_ns=timeout_ns)
        self._taken_again_ns: int | None = None  # until then readings were taken again (monotonic), and some are held

    @property
    def counts(self) -> AssemblyCounts:
        """What came of the readings."""
        return self._triggers.counts

    def let_set_aside(self, may: bool) -> None:
        """Whether the dead letters have room for what is set aside."""
        self._triggers.sets_aside = may
        self.receipts.refuses_strays = not may

    def end_taking_again(self, now: Instant) -> None:
        """Nothing is taken again any more; of what is held of it by now some may still be set aside."""
        self._taken_again_ns = now.monotonic_ns
        self._see_taken_again()

    def _see_taken_again(self) -> None:
        until, oldest = self._taken_again_ns, [strays.oldest_ns for strays in self._routing.all_strays]
        if until is not None and all(each is None or each > until for each in oldest):
            self._triggers.may_come_again, self._taken_again_ns = False, None

    @property
    def run(self) -> int:
        """The number of the run under way."""
        return self._runs.number

    @property
    def begun(self) -> int:
        """The newest run that has begun; see `OpenRuns.begun`."""
        return self._runs.begun

    @property
    def brief_runs(self) -> int:
        """The number of runs in a row, up to now, that had one trigger each."""
        return self._runs.brief

    @property
    def open(self) -> int:
        """How many triggers are open."""
        return self._triggers.pool.open

    @property
    def held(self) -> int:
        """How many readings wait here: those of open triggers, and strays."""
        return int(self._triggers.pool.arrived.sum()) + sum(len(strays) for strays in self._routing.all_strays)

    @property
    def wanted(self) -> int:
        """How many readings the fullest open trigger still lacks: with fewer, nothing can become complete."""
        return self.group.size - int(self._triggers.pool.arrived.max())

    @property
    def newest(self) -> int | None:
        """The highest trigger number closed in this run."""
        return self._runs.current.progress.newest

    @property
    def deadline_ns(self) -> int | None:
        """Monotonic time at which `close_due` has something to do."""
        due = [int(self._triggers.pool.opened.min()) + self._routing.timeout_ns] if self._triggers.pool.open else []
        held = [strays.oldest_ns for strays in self._routing.all_strays]
        due += [oldest + self._routing.timeout_ns for oldest in held if oldest is not None]
        if any(run.window.is_counting for run in self._runs):
            due.append(self._triggers.counts_due_ns)
        return min(due, default=None)

    def in_hand(self, most: int) -> InHand:
        """What has come for triggers that are not closed yet (the newest `most` of these), and what fits none."""
        current = self._runs.current
        trigger, times, present = self._triggers.pool.newest(current.run, most)
        doubles, self._triggers.doubles = self._triggers.doubles, self._triggers.doubles[:0]
        return InHand(
            run=self.run,
            trigger=trigger,
            times=times,
            present=present,
            strays=join([self._routing.strays.held(), current.strays.held()]),
            doubles=doubles,
        )

    def receive(self, block: Array, origin: Origin | None, now: Instant) -> list[ClosedBlock]:
        """Take readings: record dtype, shape (n,). A timestamp of 0 is replaced by the time of receipt, in place."""
        if origin is None:
            origin = Origin.of(-1, 0, len(block))
        self.counts.received += len(block)
        self._triggers.unplaced.refill(now.monotonic_ns)
        out: list[ClosedBlock] = []
        for start in range(0, len(block), self._slice):
            part = slice(start, start + self._slice)
            self.receipts.received(origin[part])
            self._receive(block[part], origin[part], now, out)
            self._end_step(now, out)
        return out

    def take_again(self, block: Array, now: Instant, origin: Origin | None = None) -> list[ClosedBlock]:
        """Take readings that were taken before, and may be in closed triggers: record dtype, shape (n,).

        What is a dead letter stays one. Without an epoch only a trigger that is remembered, and of their time, proves
        which run they are of.
        """
        out = list[ClosedBlock]()
        if origin is None:
            origin = Origin.of(-1, 0, len(block))
        self.receipts.received(origin)
        letters = self._letters.have(block)
        block, origin = block[~letters], origin[~letters]
        self.counts.received += len(block)
        block, origin = self._screen.without_impossible(block, origin)
        for epoch in np.unique(block["epoch"]).tolist():
            mine = block["epoch"] == epoch
            if epoch:
                self._routing.receive_of(epoch, block[mine], origin[mine], now, out)
                continue
            run, unknown = self._runs.current, block[mine]
            known = run.window.apart(unknown) < ONE_MOMENT_NS
            if known.any():
                self._triggers.merge(run, unknown[known], origin[mine][known], now)
            self._triggers.set_aside(unknown[~known], origin[mine][~known], 0, AsideReason.AMBIGUOUS)
        self._end_step(now, out)
        return out

    def close_due(self, now: Instant) -> list[ClosedBlock]:
        """Close the triggers, and let go of the strays, whose time is over."""
        out: list[ClosedBlock] = []
        due = now.monotonic_ns - self._routing.timeout_ns
        self._routing.let_go(due, now, out)
        self._see_taken_again()
        self._triggers.close(np.flatnonzero(self._triggers.pool.opened <= due), now, out)
        self._end_step(now, out)
        return out

    def restart_timeouts(self, now: Instant) -> None:
        """Count the timeouts of all that is open from now on: for a while nothing could come."""
        self._triggers.pool.opened[self._triggers.pool.opened != FREE] = now.monotonic_ns
        for strays in self._routing.all_strays:
            strays.restart(now.monotonic_ns)
        if self._taken_again_ns is not None:
            self._taken_again_ns = now.monotonic_ns

    def change_timeout(self, timeout_ns: int) -> None:
        """Close triggers so long after their first reading from now on, those that are open too."""
        self._routing.timeout_ns = timeout_ns

    def flush(self, now: Instant) -> list[ClosedBlock]:
        """Close everything, as at the end of the service."""
        out: list[ClosedBlock] = []
        self._routing.let_go(now.monotonic_ns, now, out)
        self._triggers.close(self._triggers.pool.taken(), now, out)
        self._end_step(now, out, every=True)
        return out

    def tell_sessions(self, now: Instant) -> list[ClosedBlock]:
        """A closed block that says what is settled by nothing but refusals, which would else be said with the next."""
        out: list[ClosedBlock] = []
        if self.sessions.has_unsaid(self._triggers.pool.taken()):
            self._triggers.unplaced.is_awaited = True
            self._end_step(now, out)
        return out

    def ended(self, epoch: int) -> int | None:
        """The run of an epoch that is over; None of any other."""
        return self._runs.number_of(epoch) if self._runs.is_over(epoch) else None

    def announce(self, epoch: int, now: Instant) -> tuple[int | None, list[ClosedBlock]]:
        """Take note that the timing system was restarted, and has this epoch now; 0 where nobody knows it.

        What an epoch does not tell belongs to its run from now on, but for what fits an open trigger of the run before.

        Returns the run's number, None where it has one from its first reading on, and closed blocks.
        """
        out: list[ClosedBlock] = []
        run = self._routing.announce(epoch, now, out)
        self._end_step(now, out)
        return None if run is None else run.run, out

    def note_placed(self, run: int, triggers: Array) -> int:
        """Take note of triggers that the database gets now, of numbers that were skipped.

        Returns the epoch of the run; 0 where it is not known.
        """
        return self._triggers.note_placed(run, triggers)

    # --- one step -----------------------------------------------------------------------------------------------

    def _receive(self, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        block, origin = self._screen.without_impossible(block, origin)
        times = block["time_ns"]
        if not times.all():
            times[times == 0] = now.utc_ns
        block, origin = self._screen.without_letters(block, origin, now)
        epochs = block["epoch"]
        if (epochs == epochs[:1]).all():
            if len(block):
                self._routing.receive_of(int(epochs[0]), block, origin, now, out)
            return
        for epoch in np.unique(epochs).tolist():
            mine = epochs == epoch
            self._routing.receive_of(epoch, block[mine], origin[mine], now, out)

    def _end_step(self, now: Instant, out: list[ClosedBlock], *, every: bool = False) -> None:
        """Close what has become complete, with all that is to go with the next closed block."""
        self._routing.end_step()
        self.receipts.placed()
        before = len(out)
        self._triggers.close_complete(now, out)
        leading = self._triggers.take_leading()
        if leading is not None:
            self._routing.move_to(leading, now, out)
        self._triggers.tell_counts(now, out, every=every)
        self._triggers.end_step(now, out, before)

"""Assembly of one group: blocks of readings in, closed blocks out."""

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.in_hand import InHand
from daemon.pipeline.assembly.not_begun import NotBegun
from daemon.pipeline.assembly.open_run import OpenRun
from daemon.pipeline.assembly.open_runs import OpenRuns
from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.outcomes import AssemblyCounts
from daemon.pipeline.assembly.pool import FREE
from daemon.pipeline.assembly.progress import MOST_TRIGGER, ONE_MOMENT_NS
from daemon.pipeline.assembly.reading_set import ReadingSet
from daemon.pipeline.assembly.receipts import Receipts
from daemon.pipeline.assembly.runs import Runs
from daemon.pipeline.assembly.sessions import Sessions
from daemon.pipeline.assembly.strays import Move, Stray, Strays
from daemon.pipeline.assembly.triggers import Triggers
from schemas.batch import Aside, ClosedBlock
from schemas.readings import Array, InstrumentGroup, join
from schemas.sessions import NO_SESSIONS
from schemas.states import AsideReason

SLICE = 16_384
"""Readings worked on at once: enough to make numpy's fixed costs small, few enough to stay in the cache."""

ARMED_NS = 600_000_000_000
"""An announced restart is waited for so long."""


class Assembly:
    """Puts the readings of a group's triggers together.

    A trigger closes when every instrument is there, or `timeout_ns` after its first reading. What comes for a closed
    trigger within the window is late, and comes out with the trigger's revised ledger row. What can be put nowhere is
    set aside, and comes out as such. Every method that may close triggers returns the closed blocks to commit, in
    order; each is one of the receipts'.

    runs: numbers the runs of all groups.
    history: ledger rows of the newest runs as the store has them, ascending, so that a restarted daemon merges late
        readings and recognises doubles as if it had never stopped. is_whole: whether no trigger with a lower number
        than its last may be missing from it.
    epochs: the runs of those that the group had before, of the one that it was in at the end; of one that is not in
        the history nothing is remembered but its run.
    sessions, stored, claimed, is_uncertain, pinned: what is known of the senders' sessions, and how well; see
        `Sessions`.
    letters: what an earlier process made, or would have made, dead letters of; record dtype, shape (n,).
    placing: what it set aside to be placed, and the database does not have yet.
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
        is_whole: bool = True,
        epochs: Mapping[int, int] | None = None,
        sessions: Array = NO_SESSIONS,
        stored: Array = NO_SESSIONS,
        claimed: Array = NO_SESSIONS,
        is_uncertain: bool = False,
        letters: Array | None = None,
        placing: Aside | None = None,
        pinned: Container[int] = (),
    ) -> None:
        self.group = group
        self.receipts = Receipts()
        self.sessions = Sessions(self.receipts, sessions, stored, claimed, is_uncertain=is_uncertain, pinned=pinned)
        self._letters = ReadingSet(np.empty(0, group.record) if letters is None else letters)
        self._timeout_ns = timeout_ns
        self._slice = min(SLICE, window // 4)
        self._half = window // 2
        self._strays = Strays(group.size, group.record)  # of readings without an epoch
        self._not_begun = NotBegun(group.size)
        self._are_others_held = False  # in this step, of what has not begun
        self._runs = OpenRuns(group, window, runs, history, epochs or {})
        if not is_whole:
            for run in self._runs:
                run.leave_unread()
        if placing is not None:
            for run in self._runs:
                run.leave(placing.readings[placing.run == run.run])
        self._triggers = Triggers(
            group,
            max_open=max_open,
            runs=self._runs,
            receipts=self.receipts,
            sessions=self.sessions,
            letters=self._letters,
        )
        self._armed_until_ns = 0
        self._taken_again_ns: int | None = None  # until then readings were taken again (monotonic), and some are held

    @property
    def counts(self) -> AssemblyCounts:
        """What came of the readings."""
        return self._triggers.counts

    def let_set_aside(self, may: bool) -> None:
        """Whether the dead letters have room for what is set aside."""
        self._triggers.sets_aside = may
        self.receipts.refuses_strays = not may

    @contextmanager
    def taking_again(self) -> Iterator[None]:
        """What comes within is acknowledged already, and nothing of it may be refused."""
        self._triggers.was_acknowledged = True
        try:
            yield
        finally:
            self._triggers.was_acknowledged = False

    def end_taking_again(self, now: Instant) -> None:
        """Nothing is taken again any more; of what is held of it by now some may still be set aside."""
        self._taken_again_ns = now.monotonic_ns
        self._see_taken_again()

    def _see_taken_again(self) -> None:
        until, oldest = self._taken_again_ns, [strays.oldest_ns for strays in self._all_strays]
        if until is not None and all(each is None or each > until for each in oldest):
            self._triggers.may_come_again, self._taken_again_ns = False, None

    @property
    def run(self) -> int:
        """The number of the run under way."""
        return self._runs.number

    @property
    def open(self) -> int:
        """How many triggers are open."""
        return self._triggers.pool.open

    @property
    def held(self) -> int:
        """How many readings wait here: those of open triggers, and strays."""
        return int(self._triggers.pool.arrived.sum()) + sum(len(strays) for strays in self._all_strays)

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
        due = [int(self._triggers.pool.opened.min()) + self._timeout_ns] if self._triggers.pool.open else []
        held = [strays.oldest_ns for strays in self._all_strays]
        due += [oldest + self._timeout_ns for oldest in held if oldest is not None]
        if any(run.window.is_counting for run in self._runs):
            due.append(self._triggers.counts_due_ns)
        return min(due, default=None)

    @property
    def _all_strays(self) -> Iterable[Strays | NotBegun]:
        return [self._strays, self._not_begun, *(run.strays for run in self._runs)]

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
            strays=join([self._strays.held(), current.strays.held()]),
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
        block, origin = self._without_impossible(block, origin)
        for epoch in np.unique(block["epoch"]).tolist():
            mine = block["epoch"] == epoch
            if epoch:
                self._receive_of(epoch, block[mine], origin[mine], now, out)
                continue
            run, unknown = self._runs.current, block[mine]
            known = run.window.apart(unknown) < ONE_MOMENT_NS
            if known.any():
                self._triggers.merge(run, unknown[known], origin[mine][known], now)
            self._triggers.set_aside(unknown[~known], origin[mine][~known], 0, AsideReason.AMBIGUOUS)
        self._end_step(now, out)
        return out

    def set_aside_again(self, aside: Aside, now: Instant) -> list[ClosedBlock]:
        """Take what was set aside in closed blocks before: nothing is known now that was not known then."""
        aside = aside[~self._letters.have(aside.readings)]
        self.counts.received += len(aside.readings)
        for run, reason in sorted(set(zip(aside.run.tolist(), aside.reason.tolist(), strict=True))):
            block = aside.readings[(aside.run == run) & (aside.reason == reason)]
            self._triggers.set_aside(block, Origin.of(-1, 0, len(block)), run, AsideReason(reason))
        out: list[ClosedBlock] = []
        self._end_step(now, out)
        return out

    def close_due(self, now: Instant) -> list[ClosedBlock]:
        """Close the triggers, and let go of the strays, whose time is over."""
        out: list[ClosedBlock] = []
        due = now.monotonic_ns - self._timeout_ns
        self._let_go(due, now, out)
        self._see_taken_again()
        self._triggers.close(np.flatnonzero(self._triggers.pool.opened <= due), now, out)
        self._end_step(now, out)
        return out

    def restart_timeouts(self, now: Instant) -> None:
        """Count the timeouts of all that is open from now on: for a while nothing could come."""
        self._triggers.pool.opened[self._triggers.pool.opened != FREE] = now.monotonic_ns
        for strays in self._all_strays:
            strays.restart(now.monotonic_ns)
        if self._taken_again_ns is not None:
            self._taken_again_ns = now.monotonic_ns

    def change_timeout(self, timeout_ns: int) -> None:
        """Close triggers so long after their first reading from now on, those that are open too."""
        self._timeout_ns = timeout_ns

    def flush(self, now: Instant) -> list[ClosedBlock]:
        """Close everything, as at the end of the service."""
        out: list[ClosedBlock] = []
        self._let_go(now.monotonic_ns, now, out)
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

    def announce(self, epoch: int, now: Instant) -> tuple[int | None, list[ClosedBlock]]:
        """Take note that the timing system was restarted, and has this epoch now; 0 where nobody knows it.

        What an epoch does not tell belongs to its run from now on. Without an epoch the first reading that falls back
        shows that the restart has happened: those that are on their way belong to the run before.

        Returns the run's number, None where it begins later, and closed blocks.
        """
        out: list[ClosedBlock] = []
        if not epoch:
            self._armed_until_ns = now.monotonic_ns + ARMED_NS
            return None, out
        run = self._run_of(epoch, np.arange(self.group.size), now, out)
        if run is not None:
            self._move_to(run, now, out)
            self._receive_held(run, now, out)
        self._end_step(now, out)
        return None if run is None else run.run, out

    def take_placed(self, run: int, triggers: Array, *, are_new: bool) -> Array:
        """How many numbers were skipped right before triggers that the database has now; see `Triggers.take_placed`."""
        return self._triggers.take_placed(run, triggers, are_new=are_new)

    # --- which run readings belong to ---------------------------------------------------------------------------

    def _receive(self, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        block, origin = self._without_impossible(block, origin)
        times = block["time_ns"]
        if not times.all():
            times[times == 0] = now.utc_ns
        block, origin = self._without_letters(block, origin, now)
        epochs = block["epoch"]
        if (epochs == epochs[:1]).all():
            if len(block):
                self._receive_of(int(epochs[0]), block, origin, now, out)
            return
        for epoch in np.unique(epochs).tolist():
            mine = epochs == epoch
            self._receive_of(epoch, block[mine], origin[mine], now, out)

    def _without_impossible(self, block: Array, origin: Origin) -> tuple[Array, Origin]:
        """Refuse readings that can be none of the group's; return the others."""
        unknown = block["instrument"] >= self.group.size
        impossible = block["trigger"].view(np.uint64) >= MOST_TRIGGER  # those below 0 are high
        bad = unknown | impossible
        if not bad.any():
            return block, origin
        for reason, these in (("unknown_instrument", unknown), ("impossible_trigger", impossible & ~unknown)):
            if these.any():
                self._triggers.refuse(reason, origin[these])
        return block[~bad], origin[~bad]

    def _without_letters(self, block: Array, origin: Origin, now: Instant) -> tuple[Array, Origin]:
        """What was sent before, and made a dead letter of then, is a double.

        What comes without its time has another one each time that it is sent: with an epoch the rest tells which it is.
        What a session knows does not matter here: a power cut takes that with the journal, and leaves the letters.
        """
        if not self._letters:
            return block, origin
        double = self.sessions.may_be_resent(origin)
        if double.any():
            sent = block[double]
            have = self._letters.have(sent)
            is_untimed = ~have & (sent["time_ns"] == now.utc_ns) & (sent["epoch"] != 0)
            if is_untimed.any():
                have[is_untimed] = self._letters.have_but_for_times(sent[is_untimed])
            double[double] = have
        if not double.any():
            return block, origin
        self.counts.duplicate += int(np.count_nonzero(double))
        # Acknowledged behind the blocks that are still to become letters.
        self.receipts.wait_in_next_block(origin[double])
        self._triggers.unplaced.is_awaited = True
        return block[~double], origin[~double]

    def _still_wanted(self, held: Iterable[Stray], now: Instant) -> Iterator[Stray]:
        """What was held, one after the other: what came twice may be a dead letter since the one before was placed."""
        for stray in held:
            wanted = self._without_letters(*stray, now)
            if len(wanted[0]):
                yield wanted

    def _receive_of(self, epoch: int, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        if not epoch:
            self._receive_unknown(block, origin, now, out)
            return
        run = self._run_of(epoch, block["instrument"], now, out)
        if run is not None:
            self._receive_held(run, now, out)
            self._receive_in(run, block, origin, now, out)
        elif self._runs.is_over(epoch):
            self._triggers.leave(block, origin, self._runs.number_of(epoch), now)
        else:
            # Whether it is garbage, or the machine's, the other instruments tell.
            held = self._not_begun.hold(block, origin, now.monotonic_ns)
            self._triggers.set_aside(block[~held], origin[~held], 0, AsideReason.EPOCH)
            self._are_others_held |= bool(held.any())

    def _receive_held(self, run: OpenRun, now: Instant, out: list[ClosedBlock]) -> None:
        """Take what came of the epoch of a run before it could begin."""
        for block, origin in self._still_wanted([held[:2] for held in self._not_begun.release_of(run.epoch)], now):
            self._receive_in(run, block, origin, now, out)
            self._are_others_held = True

    def _receive_in(self, run: OpenRun, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        """Take readings of the epoch of a run."""
        far = self._triggers.are_far(run, block)
        if not far.any():
            self._triggers.accept(run, block, origin, now, out)
            return
        older = far & run.progress.is_older(block["trigger"])
        self._triggers.leave(block[older], origin[older], run.run, now)
        # Those that are near go first: the others may move the run, and the window with it.
        self._triggers.accept(run, block[~far], origin[~far], now, out)
        ahead = far & ~older
        self._hold(run, block[ahead], origin[ahead], now, out)

    def _run_of(self, epoch: int, instruments: Array, now: Instant, out: list[ClosedBlock]) -> OpenRun | None:
        """The open run of an epoch, which may begin here; None of one that is over, or may have none.

        instruments: those that sent readings of it just now.
        """
        run = self._runs.of_epoch(epoch)
        if run is not None or self._runs.is_over(epoch):
            return run
        senders = np.union1d(instruments, self._not_begun.senders_of(epoch))
        number = self._runs.number_for(epoch, senders, now)
        if number is None:
            return None
        leaving = self._runs.leaving()
        if leaving is not None:
            self._let_go_of(leaving, now.monotonic_ns, now, out)
            self._triggers.close(self._triggers.pool.of_run(leaving.run), now, out)
            self._triggers.tell_counts(now, out, every=True)
            self._runs.leave(leaving)
        return self._runs.begin(epoch, number)

    def _receive_unknown(self, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        before = self._runs.before
        if before is not None:
            block, origin = self._accept_before(before, block, origin, now, out)
        run = self._runs.current
        stray = run.progress.is_stray(block)
        if not stray.any():
            self._triggers.accept(run, block, origin, now, out)
            return
        self._triggers.accept(run, block[~stray], origin[~stray], now, out)
        self._hold(run, block[stray], origin[stray], now, out)

    def _accept_before(
        self, run: OpenRun, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]
    ) -> tuple[Array, Origin]:
        """Accept what still comes, without an epoch, for the run before; return the rest.

        Such a reading was taken before this run began, and its timestamp is that of its trigger: an instrument with a
        slow clock must not end up in the wrong run. Nor must one that comes late, its clock a little behind those
        that voted for this run: of a number that both runs have reached, it lies nearer to where this one began. What
        may have come before, and is in one of the two runs, goes there again, whatever was known of them then.
        """
        current = self._runs.current
        before = np.zeros(len(block), bool)
        old = np.flatnonzero(block["time_ns"] < current.started_ns)
        if len(old):
            apart = run.window.apart_from_all(block[old])
            is_before = apart < ONE_MOMENT_NS
            if current.progress.front is not None:
                reached = block["trigger"][old] <= current.progress.front
                is_before &= ~reached | (apart <= current.started_ns - block["time_ns"][old])
            before[old[is_before]] = True
        again = ~self.sessions.is_new(origin)
        if again.any():
            before[again] |= run.window.has(block[again])
            again &= before
            before[again] = ~current.window.has(block[again])
        if before.any():
            self._triggers.accept_near(run, block[before], origin[before], now, out)
        return block[~before], origin[~before]

    def _hold(self, run: OpenRun, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        if not len(block):
            return
        strays = run.strays if block["epoch"][0] else self._strays
        held = strays.hold(block, origin, now.monotonic_ns)
        # Before the first trigger there is nothing to protect: better to begin early than to set aside for want of
        # room.
        at = self._follow(run, strays, now, out, expired=run.progress.front is None and not held.all())
        if not held.all():
            self._triggers.accept_near(at or run, block[~held], origin[~held], now, out)
        self._wait_as_strays()

    def _let_go(self, until_ns: int, now: Instant, out: list[ClosedBlock]) -> None:
        """Let go of the strays that came until then (monotonic): they move the run, or go where their numbers say."""
        self._let_go_unknown(until_ns, now, out)
        for block, origin in self._still_wanted(self._not_begun.release(until_ns), now):
            self._triggers.set_aside(block, origin, 0, AsideReason.EPOCH)
        for run in list(self._runs):
            self._let_go_of(run, until_ns, now, out)
        self._wait_as_strays()

    def _let_go_unknown(self, until_ns: int, now: Instant, out: list[ClosedBlock]) -> None:
        if not self._strays.is_due(until_ns):
            return
        if self._follow(self._runs.current, self._strays, now, out, expired=True) is None:
            for block, origin in self._still_wanted(self._strays.release(until_ns), now):
                self._triggers.accept_near(self._runs.current, block, origin, now, out)

    def _let_go_of(self, run: OpenRun, until_ns: int, now: Instant, out: list[ClosedBlock]) -> None:
        if run.strays.is_due(until_ns) and self._follow(run, run.strays, now, out, expired=True) is None:
            for block, origin in self._still_wanted(run.strays.release(until_ns), now):
                self._triggers.accept_near(run, block, origin, now, out)

    def _follow(
        self, run: OpenRun, strays: Strays, now: Instant, out: list[ClosedBlock], *, expired: bool
    ) -> OpenRun | None:
        """Follow the machine where most instruments have gone; return the run they are in now if there was a move."""
        verdict = strays.judge(
            run.progress,
            self._half,
            run.started_ns,
            self._voters(run, strays, now, expired=expired),
            utc_ns=now.utc_ns,
            expired=expired,
            armed=now.monotonic_ns < self._armed_until_ns,
        )
        if verdict is None:
            return None
        released = strays.release(now.monotonic_ns)
        if verdict.move is Move.RESTART:
            self._armed_until_ns = 0
            released = self._keep_behind(run, verdict.started_ns, released, now, out)
            self._triggers.close(self._triggers.pool.of_run(run.run), now, out)
            self._triggers.tell_counts(now, out, every=True)
            self._close_before(now, out)
            run = self._runs.restart()
        if verdict.move is Move.BEGIN:
            self._runs.join(run)
        if verdict.move is not Move.JUMP and strays is self._strays:
            run.started_ns = verdict.started_ns
        run.progress.move(verdict.front, verdict.started_ns)
        for block, origin in self._still_wanted(released, now):
            self._triggers.accept_near(run, block, origin, now, out)
        return run

    def _keep_behind(
        self, run: OpenRun, started_ns: int, strays: list[Stray], now: Instant, out: list[ClosedBlock]
    ) -> list[Stray]:
        """Let strays go to the run that ends if they were on their way for long; return the others."""
        left = []
        for block, origin in self._still_wanted(strays, now):
            behind = run.progress.is_behind(block, started_ns)
            self._triggers.accept_near(run, block[behind], origin[behind], now, out)
            left.append((block[~behind], origin[~behind]))
        return left

    def _voters(self, run: OpenRun, strays: Strays, now: Instant, *, expired: bool) -> int:
        """How many instruments have a say in where the run is; more than half of them can move it."""
        if not expired:
            return run.progress.active()
        # Time is over: the silent have no say any more, or a group with dead instruments would be stuck for ever.
        heard = run.progress.heard_since(now.monotonic_ns - 2 * self._timeout_ns)
        heard[strays.instruments()] = True
        return int(heard.sum())

    def _wait_as_strays(self) -> None:
        self.receipts.wait_as_strays([origin for strays in self._all_strays for origin in strays.origins()])

    # --- closing ------------------------------------------------------------------------------------------------

    def _end_step(self, now: Instant, out: list[ClosedBlock], *, every: bool = False) -> None:
        """Close what has become complete, with all that is to go with the next closed block."""
        if self._are_others_held:
            self._wait_as_strays()
            self._are_others_held = False
        self.receipts.placed()
        before = len(out)
        self._triggers.close_complete(now, out)
        run = self._triggers.take_closed_beside()
        if run is not None and self._runs.leads(run):
            self._move_to(run, now, out)
        self._triggers.tell_counts(now, out, every=every)
        self._triggers.end_step(now, out, before)

    def _move_to(self, run: OpenRun, now: Instant, out: list[ClosedBlock]) -> None:
        if run is not self._runs.current:
            self._close_before(now, out)
            self._runs.move_to(run)

    def _close_before(self, now: Instant, out: list[ClosedBlock]) -> None:
        """Close what is open of the run before, of which nobody knows the epoch: it is forgotten now."""
        before = self._runs.before
        if before is not None and not before.epoch:
            self._triggers.close(self._triggers.pool.of_run(before.run), now, out)
            self._triggers.tell_counts(now, out, every=True)

"""Assembly of one group: blocks of readings in, closed blocks out."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.closing import close_slots
from daemon.pipeline.assembly.in_hand import DOUBLES_KEPT, InHand
from daemon.pipeline.assembly.open_run import OpenRun
from daemon.pipeline.assembly.open_runs import OpenRuns
from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.pool import FREE, Pool
from daemon.pipeline.assembly.progress import MOST_TRIGGER, ONE_MOMENT_NS
from daemon.pipeline.assembly.receipts import Receipts
from daemon.pipeline.assembly.runs import Runs
from daemon.pipeline.assembly.sessions import Sessions
from daemon.pipeline.assembly.strays import Move, Strays
from daemon.pipeline.assembly.unplaced import Unplaced
from daemon.pipeline.assembly.window import CLOSED, UNKNOWN
from schemas.batch import ClosedBlock
from schemas.readings import Array, InstrumentGroup, join
from schemas.sessions import NO_SESSIONS
from schemas.states import AsideReason

SLICE = 16_384
"""Readings worked on at once: enough to make numpy's fixed costs small, few enough to stay in the cache."""

COUNTS_EVERY_NS = 1_000_000_000
COUNTS_MOST = 2048
"""Ledger rows that changed by nothing but doubles are given out so often, and so many at once: a sender that goes round
and round over thousands of closed triggers would else have them written faster than a database can."""

ARMED_NS = 600_000_000_000
"""An announced restart is waited for so long."""

NO_SLOTS = np.empty(0, np.intp)


@dataclass(kw_only=True)
class AssemblyCounts:
    """Counts since the start. Readings: received = accepted + duplicate + refused + set aside + held back as strays.

    aside: readings by the name of `AsideReason`, in small letters. missing: instruments, summed over the triggers that
    closed incomplete. skipped: trigger numbers that no trigger was closed for.
    """

    received: int = 0
    accepted: int = 0
    late: int = 0
    duplicate: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    aside: dict[str, int] = field(default_factory=dict)
    opened: int = 0
    complete: int = 0
    incomplete: int = 0
    missing: int = 0
    skipped: int = 0


class Assembly:
    """Puts the readings of a group's triggers together.

    A trigger closes when every instrument is there, or `timeout_ns` after its first reading. What comes for a closed
    trigger within the window is late, and comes out with the trigger's revised ledger row. What can be put nowhere is
    set aside, and comes out as such. Every method that may close triggers returns the closed blocks to commit, in
    order; each is one of the receipts'.

    sets_aside: whether the dead letters have room. was_acknowledged: what comes is acknowledged already, and nothing of
        it may be refused.

    runs: numbers the runs of all groups.
    history: ledger rows of the newest runs as the store has them, ascending, so that a restarted daemon merges late
        readings and recognises doubles as if it had never stopped.
    epochs: those that the group had before; of one that is not in the history nothing is remembered but its run.
    sessions, stored, is_uncertain: what is known of the senders' sessions, and how well; see `Sessions`.
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
        epochs: Collection[int] = (),
        sessions: Array = NO_SESSIONS,
        stored: Array = NO_SESSIONS,
        is_uncertain: bool = False,
    ) -> None:
        self.group = group
        self.counts = AssemblyCounts()
        self.receipts = Receipts()
        self.sessions = Sessions(self.receipts, sessions, stored, is_uncertain=is_uncertain)
        self.sets_aside = True
        self.was_acknowledged = False
        self._timeout_ns = timeout_ns
        self._max_open = max_open
        self._slice = min(SLICE, window // 4)
        self._half = window // 2
        self._pool = Pool(group, max_open)
        self._strays = Strays(group.size, group.record)  # of readings without an epoch
        self._runs = OpenRuns(group, window, runs, history, epochs)
        self._unplaced = Unplaced(group)
        self._touched: list[Array] = []
        self._closed_beside: OpenRun | None = None  # a run that is not the current one, in which triggers closed
        self._doubles = np.empty(0, group.record)
        self._counts_due_ns = 0
        self._armed_until_ns = 0

    @property
    def run(self) -> int:
        """The number of the run under way."""
        return self._runs.number

    @property
    def open(self) -> int:
        """How many triggers are open."""
        return self._pool.open

    @property
    def held(self) -> int:
        """How many readings wait here: those of open triggers, and strays."""
        return int(self._pool.arrived.sum()) + sum(len(strays) for strays in self._all_strays)

    @property
    def wanted(self) -> int:
        """How many readings the fullest open trigger still lacks: with fewer, nothing can become complete."""
        return self.group.size - int(self._pool.arrived.max())

    @property
    def newest(self) -> int | None:
        """The highest trigger number closed in this run."""
        return self._runs.current.progress.newest

    @property
    def deadline_ns(self) -> int | None:
        """Monotonic time at which `close_due` has something to do."""
        due = [int(self._pool.opened.min()) + self._timeout_ns] if self._pool.open else []
        held = [strays.oldest_ns for strays in self._all_strays]
        due += [oldest + self._timeout_ns for oldest in held if oldest is not None]
        if any(run.window.is_counting for run in self._runs):
            due.append(self._counts_due_ns)
        return min(due, default=None)

    @property
    def _all_strays(self) -> Iterable[Strays]:
        return [self._strays, *(run.strays for run in self._runs)]

    def in_hand(self, most: int) -> InHand:
        """What has come for triggers that are not closed yet (the newest `most` of these), and what fits none."""
        current = self._runs.current
        trigger, times, present = self._pool.newest(current.run, most)
        doubles, self._doubles = self._doubles, self._doubles[:0]
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
        self._unplaced.refill(now.monotonic_ns)
        out: list[ClosedBlock] = []
        for start in range(0, len(block), self._slice):
            part = slice(start, start + self._slice)
            self.receipts.received(origin[part])
            self._receive(block[part], origin[part], now, out)
            self._end_step(now, out)
        return out

    def take_again(self, block: Array, now: Instant) -> list[ClosedBlock]:
        """Take readings that were in closed blocks before, and may be in closed triggers: record dtype, shape (n,).

        Without an epoch only a trigger that is remembered, and of their time, proves which run they are of.
        """
        origin, out = Origin.of(-1, 0, len(block)), list[ClosedBlock]()
        self.counts.received += len(block)
        for epoch in np.unique(block["epoch"]).tolist():
            mine = block["epoch"] == epoch
            if epoch:
                self._receive_of(epoch, block[mine], origin[mine], now, out)
                continue
            run, unknown = self._runs.current, block[mine]
            known = run.window.apart(unknown) < ONE_MOMENT_NS
            if known.any():
                self._merge(run, unknown[known], origin[mine][known], now)
            self._set_aside(unknown[~known], origin[mine][~known], 0, AsideReason.AMBIGUOUS)
        self._end_step(now, out)
        return out

    def close_due(self, now: Instant) -> list[ClosedBlock]:
        """Close the triggers, and let go of the strays, whose time is over."""
        out: list[ClosedBlock] = []
        due = now.monotonic_ns - self._timeout_ns
        self._let_go(due, now, out)
        self._close(np.flatnonzero(self._pool.opened <= due), now, out)
        self._end_step(now, out)
        return out

    def restart_timeouts(self, now: Instant) -> None:
        """Count the timeouts of all that is open from now on: for a while nothing could come."""
        self._pool.opened[self._pool.opened != FREE] = now.monotonic_ns
        for strays in self._all_strays:
            strays.restart(now.monotonic_ns)

    def change_timeout(self, timeout_ns: int) -> None:
        """Close triggers so long after their first reading from now on, those that are open too."""
        self._timeout_ns = timeout_ns

    def flush(self, now: Instant) -> list[ClosedBlock]:
        """Close everything, as at the end of the service."""
        out: list[ClosedBlock] = []
        self._let_go(now.monotonic_ns, now, out)
        self._close(self._pool.taken(), now, out)
        self._end_step(now, out, every=True)
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
        run = self._run_of(epoch, now, out)
        if run is not None:
            self._move_to(run, now, out)
        self._end_step(now, out)
        return None if run is None else run.run, out

    # --- which run readings belong to ---------------------------------------------------------------------------

    def _receive(self, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        unknown = block["instrument"] >= self.group.size
        impossible = ~unknown & ((block["trigger"] < 0) | (block["trigger"] >= MOST_TRIGGER))
        for reason, bad in (("unknown_instrument", unknown), ("impossible_trigger", impossible)):
            if bad.any():
                self._refuse(reason, origin[bad])
        bad = unknown | impossible
        if bad.any():
            block, origin = block[~bad], origin[~bad]
        times = block["time_ns"]
        if not times.all():
            times[times == 0] = now.utc_ns
        epochs = block["epoch"]
        if (epochs == epochs[:1]).all():
            if len(block):
                self._receive_of(int(epochs[0]), block, origin, now, out)
            return
        for epoch in np.unique(epochs).tolist():
            mine = epochs == epoch
            self._receive_of(epoch, block[mine], origin[mine], now, out)

    def _receive_of(self, epoch: int, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        if not epoch:
            self._receive_unknown(block, origin, now, out)
            return
        run = self._run_of(epoch, now, out)
        if run is None:
            is_older = self._runs.is_over(epoch)
            reason = AsideReason.OLDER if is_older else AsideReason.EPOCH
            self._set_aside(block, origin, self._runs.number_of(epoch) if is_older else 0, reason)
            return
        far = self._are_far(run, block)
        if far.any():
            older = far & run.progress.is_older(block["trigger"])
            self._set_aside(block[older], origin[older], run.run, AsideReason.OLDER)
            ahead = far & ~older
            self._hold(run, block[ahead], origin[ahead], now, out)
            block, origin = block[~far], origin[~far]
        self._accept(run, block, origin, now, out)

    def _are_far(self, run: OpenRun, block: Array) -> Array:
        """Which readings are of triggers outside the window, and of none that is remembered: bool, shape (n,)."""
        far = run.progress.is_far(block["trigger"])
        return far & (run.window.slots(block["trigger"]) == UNKNOWN) if far.any() else far

    def _run_of(self, epoch: int, now: Instant, out: list[ClosedBlock]) -> OpenRun | None:
        """The open run of an epoch, which may begin here; None of one that is over, or may have none."""
        run = self._runs.of_epoch(epoch)
        if run is not None or self._runs.is_over(epoch):
            return run
        number = self._runs.number_for(epoch, now)
        if number is None:
            return None
        leaving = self._runs.leaving()
        if leaving is not None:
            self._let_go_of(leaving, now.monotonic_ns, now, out)
            self._close(self._pool.of_run(leaving.run), now, out)
            self._tell_counts(now, out, every=True)
            self._runs.leave(leaving)
        return self._runs.begin(epoch, number)

    def _receive_unknown(self, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        before = self._runs.before
        if before is not None:
            block, origin = self._accept_before(before, block, origin, now)
        run = self._runs.current
        stray = run.progress.is_stray(block)
        if not stray.any():
            self._accept(run, block, origin, now, out)
            return
        self._accept(run, block[~stray], origin[~stray], now, out)
        self._hold(run, block[stray], origin[stray], now, out)

    def _accept_before(self, run: OpenRun, block: Array, origin: Origin, now: Instant) -> tuple[Array, Origin]:
        """Merge what still comes, without an epoch, for the run before; return the rest.

        Such a reading was taken before this run began, and its timestamp is that of its trigger: an instrument with a
        slow clock must not end up in the wrong run. Nor must one that comes late, its clock a little behind those
        that voted for this run: of a number that both runs have reached, it lies nearer to where this one began.
        """
        current = self._runs.current
        old = block["time_ns"] < current.started_ns
        if not old.any():
            return block, origin
        apart = run.window.apart(block)
        old &= apart < ONE_MOMENT_NS
        if current.progress.front is not None:
            reached = block["trigger"] <= current.progress.front
            old &= ~reached | (apart <= current.started_ns - block["time_ns"])
        if old.any():
            self._merge(run, block[old], origin[old], now)
        return block[~old], origin[~old]

    def _hold(self, run: OpenRun, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        if not len(block):
            return
        strays = run.strays if block["epoch"][0] else self._strays
        held = strays.hold(block, origin, now.monotonic_ns)
        # Before the first trigger there is nothing to protect: better to begin early than to set aside for want of
        # room.
        at = self._follow(run, strays, now, out, expired=run.progress.front is None and not held.all())
        if not held.all():
            self._accept_near(at or run, block[~held], origin[~held], now, out)
        self._wait_as_strays()

    def _let_go(self, until_ns: int, now: Instant, out: list[ClosedBlock]) -> None:
        """Let go of the strays that came until then (monotonic): they move the run, or go where their numbers say."""
        self._let_go_unknown(until_ns, now, out)
        for run in list(self._runs):
            self._let_go_of(run, until_ns, now, out)
        self._wait_as_strays()

    def _let_go_unknown(self, until_ns: int, now: Instant, out: list[ClosedBlock]) -> None:
        if not self._strays.is_due(until_ns):
            return
        if self._follow(self._runs.current, self._strays, now, out, expired=True) is None:
            for block, origin in self._strays.release(until_ns):
                self._accept_near(self._runs.current, block, origin, now, out)

    def _let_go_of(self, run: OpenRun, until_ns: int, now: Instant, out: list[ClosedBlock]) -> None:
        if run.strays.is_due(until_ns) and self._follow(run, run.strays, now, out, expired=True) is None:
            for block, origin in run.strays.release(until_ns):
                self._accept_near(run, block, origin, now, out)

    def _follow(
        self, run: OpenRun, strays: Strays, now: Instant, out: list[ClosedBlock], *, expired: bool
    ) -> OpenRun | None:
        """Follow the machine where most instruments have gone; return the run they are in now if there was a move."""
        verdict = strays.judge(
            run.progress.front,
            self._half,
            run.started_ns,
            self._voters(run, strays, now, expired=expired),
            expired=expired,
            armed=now.monotonic_ns < self._armed_until_ns,
        )
        if verdict is None:
            return None
        if verdict.move is Move.RESTART:
            self._armed_until_ns = 0
            self._close(self._pool.of_run(run.run), now, out)
            self._tell_counts(now, out, every=True)
            self._close_before(now, out)
            run = self._runs.restart()
        if verdict.move is Move.BEGIN:
            self._runs.join(run)
        if verdict.move is not Move.JUMP and strays is self._strays:
            run.started_ns = verdict.started_ns
        run.progress.front = verdict.front
        for block, origin in strays.release(now.monotonic_ns):
            self._accept_near(run, block, origin, now, out)
        return run

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

    # --- where they go ------------------------------------------------------------------------------------------

    def _refuse(self, reason: str, origin: Origin) -> None:
        count = len(origin.column)
        self.receipts.refuse(origin)
        if self.sessions.has_any(origin):
            # Acknowledged with a closed block, even an empty one: after a restart the session has to go on behind it.
            self.receipts.wait_in_next_block(origin)
            self._unplaced.is_awaited = True
        self.counts.refused[reason] = self.counts.refused.get(reason, 0) + count

    def _set_aside(self, block: Array, origin: Origin, run: int, reason: AsideReason) -> None:
        """Let readings that can be put nowhere go on with the next closed block, as such."""
        if not len(block):
            return
        fits = self._fit_aside(block, run, reason)
        if not fits.all():
            self._refuse("no_room_aside", origin[~fits])
            block, origin = block[fits], origin[fits]
            if not len(block):
                return
        self.receipts.wait_in_next_block(origin)
        self._unplaced.set_aside(block, run, reason)
        name = reason.name.lower()
        self.counts.aside[name] = self.counts.aside.get(name, 0) + len(block)

    def _fit_aside(self, block: Array, run: int, reason: AsideReason) -> Array:
        """Which readings may be set aside: bool, shape (n,)."""
        if self.was_acknowledged:
            return np.ones(len(block), bool)
        if self.sets_aside:
            return self._unplaced.fits(block, run, reason)
        # What an epoch proves to belong to its trigger goes to the database, and not to the dead letters.
        return np.asarray((block["epoch"] != 0) & (reason is AsideReason.OLDER and run > 0))

    def _accept_near(self, run: OpenRun, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        far = self._are_far(run, block)
        if far.any():
            behind = far & run.progress.is_older(block["trigger"])
            self._set_aside(block[behind], origin[behind], run.run, AsideReason.OLDER)
            self._set_aside(block[far & ~behind], origin[far & ~behind], 0, AsideReason.AHEAD)
        self._accept(run, block[~far], origin[~far], now, out)

    def _accept(self, run: OpenRun, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        if not len(block):
            return
        triggers = np.ascontiguousarray(block["trigger"])
        slots = self._slots(run, triggers, now, out)
        if slots is None:  # more new triggers at once than may be open
            half = len(block) // 2
            self._accept(run, block[:half], origin[:half], now, out)
            self._accept(run, block[half:], origin[half:], now, out)
            return
        forgotten = slots == UNKNOWN
        if forgotten.any():
            # Known a moment ago, its place was taken by a number a whole window ahead in the same block.
            self._set_aside(block[forgotten], origin[forgotten], run.run, AsideReason.OLDER)
            block, origin, slots = block[~forgotten], origin[~forgotten], slots[~forgotten]
        closed = slots == CLOSED
        if closed.any():
            self._merge(run, block[closed], origin[closed], now)
            block, origin, slots = block[~closed], origin[~closed], slots[~closed]
        if len(block):
            self._put(run, block, origin, slots, now)

    def _slots(self, run: OpenRun, triggers: Array, now: Instant, out: list[ClosedBlock]) -> Array | None:
        """The slot of each reading's trigger, opening those that are new; None if these are too many."""
        slots = run.window.slots(triggers)
        unknown = slots == UNKNOWN
        if not unknown.any():
            return slots
        new = _distinct(triggers[unknown])
        if len(new) > max(1, self._max_open // 2):
            return None
        self._open(run, new, now, out)
        return run.window.slots(triggers)

    def _open(self, run: OpenRun, triggers: Array, now: Instant, out: list[ClosedBlock]) -> None:
        occupied = run.window.occupied(triggers)
        if len(occupied):
            self._close(occupied, now, out)
        missing = self._pool.missing_slots(len(triggers))
        if missing:
            self._close(self._pool.oldest(missing), now, out)
        if run.window.would_forget(triggers):
            self._tell_counts(now, out, every=True)
        run.window.open(triggers, self._pool.take(run.run, triggers, now.utc_ns, now.monotonic_ns))
        self.counts.opened += len(triggers)

    def _put(self, run: OpenRun, block: Array, origin: Origin, slots: Array, now: Instant) -> None:
        """Put readings into open triggers; those that become complete are closed at the end of the step."""
        taken, touched = self._pool.scatter(slots, block)
        accepted = int(np.count_nonzero(taken))
        waits = taken
        if accepted < len(block):
            others = np.flatnonzero(~taken)
            same = self._pool.is_same(slots[others], block[others])
            copies = self._pool.is_copy(slots[others], block[others])
            double = self._are_doubles(run, block[others], origin[others], same, copies)
            np.add.at(self._pool.duplicates, slots[others[double]], 1)
            waits = taken.copy()
            waits[others[double]] = True
        self.receipts.wait_in_slots(slots[waits], origin[waits])
        self.counts.accepted += accepted
        self._pool.last_received[touched] = now.utc_ns
        self._touched.append(touched)

    def _merge(self, run: OpenRun, block: Array, origin: Origin, now: Instant) -> None:
        """Merge readings of closed triggers."""
        keep = run.window.is_missing(block)
        if not keep.all():
            others = np.flatnonzero(~keep)
            keep[others] = self._are_doubles(run, block[others], origin[others], run.window.is_within(block[others]))
        self.receipts.wait_in_next_block(origin[keep])
        merged = run.window.merge(block[keep], now.utc_ns)
        self.counts.accepted += len(merged.late)
        self.counts.late += len(merged.late)
        self._unplaced.merge(merged)

    def _are_doubles(
        self, run: OpenRun, block: Array, origin: Origin, same_time: Array, copies: Array | None = None
    ) -> Array:
        """Which readings came before, of those whose place is taken; the others are set aside: bool, shape (n,).

        An epoch, or the time, says which reading it is; but one whose number in its session is new is another, unless
        it is a copy, byte for byte, of what is there.
        """
        new = self.sessions.is_new(origin)
        if copies is not None:
            new &= ~copies
        double = ((block["epoch"] != 0) | same_time) & ~new
        self._set_aside(block[new], origin[new], run.run, AsideReason.CONFLICT)
        odd = ~double & ~new
        self._set_aside(block[odd], origin[odd], run.run, AsideReason.AMBIGUOUS)
        self.counts.duplicate += int(np.count_nonzero(double))
        self._doubles = join([self._doubles, block[-DOUBLES_KEPT:]])[-DOUBLES_KEPT:]
        return np.asarray(double)

    # --- closing ------------------------------------------------------------------------------------------------

    def _end_step(self, now: Instant, out: list[ClosedBlock], *, every: bool = False) -> None:
        """Close what has become complete, with all that is to go with the next closed block."""
        self.receipts.placed()
        touched = self._touched
        slots = NO_SLOTS
        if touched:
            slots = self._pool.complete(touched[0] if len(touched) == 1 else np.unique(np.concatenate(touched)))
            self._touched = []
        self._close(slots, now, out)
        run, self._closed_beside = self._closed_beside, None
        if run is not None and self._runs.leads(run):
            self._move_to(run, now, out)
        self._tell_counts(now, out, every=every)

    def _move_to(self, run: OpenRun, now: Instant, out: list[ClosedBlock]) -> None:
        if run is not self._runs.current:
            self._close_before(now, out)
            self._runs.move_to(run)

    def _close_before(self, now: Instant, out: list[ClosedBlock]) -> None:
        """Close what is open of the run before, of which nobody knows the epoch: it is forgotten now."""
        before = self._runs.before
        if before is not None and not before.epoch:
            self._close(self._pool.of_run(before.run), now, out)
            self._tell_counts(now, out, every=True)

    def _tell_counts(self, now: Instant, out: list[ClosedBlock], *, every: bool = False) -> None:
        """Give out ledger rows in which doubles were counted: a few a second, whatever senders do; or `every` one."""
        for run in self._runs:
            while run.window.is_counting and (every or now.monotonic_ns >= self._counts_due_ns):
                self._counts_due_ns = now.monotonic_ns + COUNTS_EVERY_NS
                self._unplaced.revise(run.window.counted(COUNTS_MOST))
                self._close(NO_SLOTS, now, out)

    def _close(self, slots: Array, now: Instant, out: list[ClosedBlock]) -> None:
        """Close these slots and hand out one closed block, with all that waits to go with the next one."""
        if not len(slots) and self._unplaced.is_empty:
            return
        slots = slots[np.lexsort((self._pool.trigger[slots], self._pool.run[slots]))]
        self.receipts.close(slots)
        readings, present, ledger = close_slots(self._pool, slots, now)
        if len(ledger):
            self._note_closed(readings, present, ledger, now)
        sessions = self.sessions.changed(self._pool.taken(), now)
        out.append(self._unplaced.closed_block(readings, present, ledger, sessions))

    def _note_closed(self, readings: Array, present: Array, ledger: Array, now: Instant) -> None:
        """Complete the ledger rows by what their runs know, which take note of them."""
        numbers = ledger["run"]
        for number in [numbers[0]] if numbers[0] == numbers[-1] else np.unique(numbers):
            run, mine = self._runs.of_number(int(number)), slice(*np.searchsorted(numbers, [number, number + 1]))
            rows = ledger[mine]
            rows["epoch"] = run.epoch
            rows["skipped"] = run.window.skipped(rows["trigger"])
            run.window.close(rows)
            run.progress.advance(rows["trigger"], readings["time_ns"][mine], present[mine], now.monotonic_ns)
            if run is not self._runs.current:
                self._closed_beside = run
        missing = int((ledger["expected"] - ledger["arrived"]).sum())
        incomplete = int(np.count_nonzero(ledger["arrived"] < ledger["expected"])) if missing else 0
        self.counts.missing += missing
        self.counts.incomplete += incomplete
        self.counts.complete += len(ledger) - incomplete
        self.counts.skipped += int(ledger["skipped"].sum())


def _distinct(values: Array) -> Array:
    """The distinct values, ascending. Neighbours are mostly equal, so most of the work is one comparison."""
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.unique(np.concatenate([values[:1], values[changes]]))

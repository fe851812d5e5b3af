"""Which run readings are of, and when the machine has gone to another one."""

from collections.abc import Iterable

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.open_runs import OpenRuns
from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.progress import NEVER, ONE_MOMENT_NS
from daemon.pipeline.assembly.runs import OpenRun
from daemon.pipeline.assembly.screen import Screen
from daemon.pipeline.assembly.strays import Move, NotBegun, Stray, Strays, Verdict
from daemon.pipeline.assembly.triggers import Triggers
from schemas.batch import ClosedBlock
from schemas.readings import Array, InstrumentGroup
from schemas.states import AsideReason


class Routing:
    """Gives readings on to the triggers of their run, and holds back what fits none.

    What is held goes on when the run is known that it is of: its epoch has begun, most instruments have gone there,
    or its time is over. Where a run ends its triggers close; what has closed is appended to `out`, in order.

    strays: what fits no run, of readings without an epoch. timeout_ns: the time that what is held has.
    """

    def __init__(
        self, group: InstrumentGroup, runs: OpenRuns, triggers: Triggers, screen: Screen, *, timeout_ns: int
    ) -> None:
        self.strays = Strays(group.size, group.record)
        self.timeout_ns = timeout_ns
        self._not_begun = NotBegun(group.size)
        self._are_others_held = False  # in this step, of what has not begun
        self._every_instrument = np.arange(group.size)
        self._runs = runs
        self._triggers = triggers
        self._screen = screen

    @property
    def all_strays(self) -> Iterable[Strays | NotBegun]:
        """All that holds readings back."""
        return [self.strays, self._not_begun, *(run.strays for run in self._runs)]

    def announce(self, epoch: int, now: Instant, out: list[ClosedBlock]) -> OpenRun | None:
        """Let the run of this epoch be the current one, and return it; None where it begins later.

        epoch: 0 where nobody knows it. Then the next reading without one that fits no open trigger of the run before
            begins the run, whatever its number and time.
        """
        if not epoch:
            if self._runs.current.has_begun:
                self._close_before(now, out)
                self._runs.restart(now)
            return None
        run = self._run_of(epoch, self._every_instrument, now, out)
        if run is not None:
            self.move_to(run, now, out)
            self._receive_held(run, now, out)
        return run

    def end_step(self) -> None:
        """Let the receipts know what this step has held of what has not begun."""
        if self._are_others_held:
            self._wait_as_strays()
            self._are_others_held = False

    def receive_of(self, epoch: int, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        """Take readings of one epoch, or with 0 those that have none."""
        if not epoch:
            self._receive_unknown(block, origin, now, out)
            return
        run = self._run_of(epoch, block["instrument"], now, out)
        if run is not None:
            self._runs.heard(run, block["instrument"])
            self._receive_held(run, now, out)
            self._receive_in(run, block, origin, now, out)
        elif self._runs.is_over(epoch):
            self._leave(epoch, block, origin, now)
        else:
            # Whether it is garbage, or the machine's, the other instruments tell.
            held = self._not_begun.hold(block, origin, now.monotonic_ns)
            self._leave(epoch, block[~held], origin[~held], now)
            self._are_others_held |= bool(held.any())

    def _leave(self, epoch: int, block: Array, origin: Origin, now: Instant) -> None:
        """Leave readings of an epoch that has a run to the database; others, which may not begin, are dead letters."""
        number = self._runs.number_of(epoch)
        if number:
            self._triggers.leave(block, origin, number, now)
        else:
            self._triggers.set_aside(block, origin, 0, AsideReason.EPOCH)

    def _receive_held(self, run: OpenRun, now: Instant, out: list[ClosedBlock]) -> None:
        """Take what came of the epoch of a run before it could begin."""
        held = [each[:2] for each in self._not_begun.release_of(run.epoch)]
        for block, origin in self._screen.still_wanted(held, now):
            self._runs.heard(run, block["instrument"])
            self._receive_in(run, block, origin, now, out)
            self._are_others_held = True

    def _receive_in(self, run: OpenRun, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        """Take readings of the epoch of a run."""
        far = self._triggers.are_far(run, block)
        if not far.any():
            self._triggers.accept(run, block, origin, now, out)
            return
        # What is behind a front that few instruments made may be where the others are.
        older = far & run.progress.is_gone(block["trigger"])
        self._triggers.leave(block[older], origin[older], run.run, now)
        if run.progress.is_led_by_few:
            far &= older | run.progress.is_ahead(block["trigger"])
        # Those that are near go first: the others may move the run, and the window with it.
        self._triggers.accept(run, block[~far], origin[~far], now, out)
        far &= ~older
        self._hold(run, block[far], origin[far], now, out)

    def _run_of(
        self, epoch: int, instruments: Array, now: Instant, out: list[ClosedBlock], *, expired: bool = False
    ) -> OpenRun | None:
        """Return the open run of an epoch, which may begin here; None of one that is over, or may have none.

        instruments: those that sent readings of it just now. expired: whether the time is over of those before.
        """
        run = self._runs.of_epoch(epoch)
        if run is not None or self._runs.is_over(epoch):
            return run
        senders = np.union1d(instruments, self._not_begun.senders_of(epoch))
        heard = self._heard(self._runs.current, senders, now) if expired else self._runs.active()
        number = self._runs.number_for(epoch, senders, heard, now)
        if number is None:
            return None
        leaving = self._runs.leaving()
        if leaving is not None:
            self._let_go_of(leaving, now.monotonic_ns, now, out)
            self._triggers.close(self._triggers.pool.of_run(leaving.run), now, out)
            self._triggers.tell_counts(now, out, every=True)
            self._runs.leave(leaving)
        return self._runs.begin(epoch, number, senders)

    def _receive_unknown(self, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        before = self._runs.before
        if before is not None and not before.progress.is_led_by_few:
            block, origin = self._accept_before(before, block, origin, now, out)
            if not len(block):
                return
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
        may have come before, and is in one of the two runs, goes there again, whatever was known of them then. So does
        what fits an open trigger: a restart that was announced takes none apart.
        """
        current = self._runs.current
        before = self._triggers.fit_open(run, block)
        old = np.flatnonzero(block["time_ns"] < current.started_ns)
        if len(old):
            apart = run.window.apart_from_all(block[old])
            is_before = apart < ONE_MOMENT_NS
            if current.progress.front is not None:
                reached = block["trigger"][old] <= current.progress.front
                is_before &= ~reached | (apart <= current.started_ns - block["time_ns"][old])
            before[old[is_before]] = True
        again = ~self._triggers.sessions.is_new(origin)
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
        strays = run.strays if block["epoch"][0] else self.strays
        held = strays.hold(block, origin, now.monotonic_ns)
        if held.any() and run is self._runs.current and self._runs.is_announced:
            at: OpenRun | None = self._go(run, strays.begin(), strays, now, out)  # needs no votes
        else:
            # Before the first trigger there is nothing to protect: better to begin early than to set aside for want of
            # room.
            at = self._follow(run, strays, now, out, expired=not run.has_begun and not held.all())
        if not held.all():
            self._triggers.accept_near(at or run, block[~held], origin[~held], now, out)
        self._wait_as_strays()

    def let_go(self, until_ns: int, now: Instant, out: list[ClosedBlock]) -> None:
        """Let go of the strays that came until then (monotonic): they move the run, or go where their numbers say."""
        self._let_go_unknown(until_ns, now, out)
        for epoch in self._not_begun.due(until_ns):
            begun = self._run_of(epoch, np.empty(0, np.uint32), now, out, expired=True)
            if begun is not None:
                self._receive_held(begun, now, out)
        for block, origin in self._screen.still_wanted(self._not_begun.release(until_ns), now):
            self._leave(int(block["epoch"][0]), block, origin, now)
        for run in list(self._runs):
            self._let_go_of(run, until_ns, now, out)
        self._wait_as_strays()

    def _let_go_unknown(self, until_ns: int, now: Instant, out: list[ClosedBlock]) -> None:
        if not self.strays.is_due(until_ns):
            return
        if self._follow(self._runs.current, self.strays, now, out, expired=True) is None:
            for block, origin in self._screen.still_wanted(self.strays.release(until_ns), now):
                self._triggers.accept_near(self._runs.current, block, origin, now, out)

    def _let_go_of(self, run: OpenRun, until_ns: int, now: Instant, out: list[ClosedBlock]) -> None:
        if run.strays.is_due(until_ns) and self._follow(run, run.strays, now, out, expired=True) is None:
            for block, origin in self._screen.still_wanted(run.strays.release(until_ns), now):
                self._triggers.accept_near(run, block, origin, now, out)

    def _follow(
        self, run: OpenRun, strays: Strays, now: Instant, out: list[ClosedBlock], *, expired: bool
    ) -> OpenRun | None:
        """Follow the machine where most instruments have gone; return the run they are in now if there was a move."""
        verdict = strays.judge(
            run.progress,
            run.started_ns if strays is self.strays else NEVER,
            self._voters(run, strays, now, expired=expired),
            utc_ns=now.utc_ns,
            expired=expired,
        )
        return None if verdict is None else self._go(run, verdict, strays, now, out)

    def _go(self, run: OpenRun, verdict: Verdict, strays: Strays, now: Instant, out: list[ClosedBlock]) -> OpenRun:
        """Go where a verdict leads with what was held; return the run that it leads to."""
        released = strays.release(now.monotonic_ns)
        if verdict.move is Move.RESTART:
            released = self._keep_behind(run, verdict.started_ns, released, now, out)
            self._triggers.close(self._triggers.pool.of_run(run.run), now, out)
            self._triggers.tell_counts(now, out, every=True)
            self._close_before(now, out)
            run = self._runs.restart(now)
        self._runs.join(run)
        if verdict.move is Move.RESTART:
            run.started_ns = verdict.started_ns
        move = run.progress.move_back if verdict.move is Move.BACK else run.progress.move
        move(verdict.front, verdict.started_ns, instruments=verdict.instruments)
        for block, origin in self._screen.still_wanted(released, now):
            self._triggers.accept_near(run, block, origin, now, out)
        return run

    def _keep_behind(
        self, run: OpenRun, started_ns: int, strays: list[Stray], now: Instant, out: list[ClosedBlock]
    ) -> list[Stray]:
        """Let strays go to the run that ends if they were on their way for long; return the others."""
        left = []
        for block, origin in self._screen.still_wanted(strays, now):
            behind = run.progress.is_behind(block, started_ns)
            self._triggers.accept_near(run, block[behind], origin[behind], now, out)
            left.append((block[~behind], origin[~behind]))
        return left

    def _voters(self, run: OpenRun, strays: Strays, now: Instant, *, expired: bool) -> Array:
        """Return which instruments have a say in where the run is, bool, (instruments,); more than half can move it."""
        return self._heard(run, strays.instruments(), now) if expired else run.progress.active()

    def _heard(self, run: OpenRun, senders: Array, now: Instant) -> Array:
        """Return which instruments have a say when time is over: these, and those that were heard in a run lately.

        bool, shape (instruments,). Else a group with dead instruments would be stuck for ever.
        """
        since_ns = now.monotonic_ns - 3 * self.timeout_ns
        heard = run.progress.heard_since(since_ns) | self._triggers.pool.heard_since(run.run, since_ns)
        heard[senders] = True
        return np.asarray(heard)

    def _wait_as_strays(self) -> None:
        self._triggers.receipts.wait_as_strays([origin for strays in self.all_strays for origin in strays.origins()])

    # --- the run under way --------------------------------------------------------------------------------------

    def move_to(self, run: OpenRun, now: Instant, out: list[ClosedBlock]) -> None:
        """Let this be the run that readings without an epoch are of."""
        if run is not self._runs.current:
            self._close_before(now, out)
            self._runs.move_to(run, now)

    def _close_before(self, now: Instant, out: list[ClosedBlock]) -> None:
        """Close what is open of the run before, of which nobody knows the epoch: it is forgotten now."""
        before = self._runs.before
        if before is not None and not before.epoch:
            self._triggers.close(self._triggers.pool.of_run(before.run), now, out)
            self._triggers.tell_counts(now, out, every=True)

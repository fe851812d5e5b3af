"""Which run readings are of, and when the machine has gone to another one."""

from collections.abc import Iterable

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.not_begun import NotBegun
from daemon.pipeline.assembly.open_run import OpenRun
from daemon.pipeline.assembly.open_runs import OpenRuns
from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.progress import ONE_MOMENT_NS
from daemon.pipeline.assembly.screen import Screen
from daemon.pipeline.assembly.strays import Move, Stray, Strays
from daemon.pipeline.assembly.triggers import Triggers
from schemas.batch import ClosedBlock
from schemas.readings import Array, InstrumentGroup
from schemas.states import AsideReason

ARMED_NS = 600_000_000_000
"""An announced restart is waited for so long."""


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
        self._armed_until_ns = 0

    @property
    def all_strays(self) -> Iterable[Strays | NotBegun]:
        """All that holds readings back."""
        return [self.strays, self._not_begun, *(run.strays for run in self._runs)]

    def expect_restart(self, now: Instant) -> None:
        """The timing system was restarted, and nobody knows its epoch."""
        self._armed_until_ns = now.monotonic_ns + ARMED_NS

    def announce(self, epoch: int, now: Instant, out: list[ClosedBlock]) -> OpenRun | None:
        """Let the run of this epoch be the one under way, and return it; None where it begins later."""
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
        held = [each[:2] for each in self._not_begun.release_of(run.epoch)]
        for block, origin in self._screen.still_wanted(held, now):
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
        # Before the first trigger there is nothing to protect: better to begin early than to set aside for want of
        # room.
        at = self._follow(run, strays, now, out, expired=run.progress.front is None and not held.all())
        if not held.all():
            self._triggers.accept_near(at or run, block[~held], origin[~held], now, out)
        self._wait_as_strays()

    def let_go(self, until_ns: int, now: Instant, out: list[ClosedBlock]) -> None:
        """Let go of the strays that came until then (monotonic): they move the run, or go where their numbers say."""
        self._let_go_unknown(until_ns, now, out)
        for block, origin in self._screen.still_wanted(self._not_begun.release(until_ns), now):
            self._triggers.set_aside(block, origin, 0, AsideReason.EPOCH)
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
        if verdict.move is not Move.JUMP and strays is self.strays:
            run.started_ns = verdict.started_ns
        run.progress.move(verdict.front, verdict.started_ns)
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

    def _voters(self, run: OpenRun, strays: Strays, now: Instant, *, expired: bool) -> int:
        """How many instruments have a say in where the run is; more than half of them can move it."""
        if not expired:
            return run.progress.active()
        # Time is over: the silent have no say any more, or a group with dead instruments would be stuck for ever.
        heard = run.progress.heard_since(now.monotonic_ns - 2 * self.timeout_ns)
        heard[strays.instruments()] = True
        return int(heard.sum())

    def _wait_as_strays(self) -> None:
        self._triggers.receipts.wait_as_strays([origin for strays in self.all_strays for origin in strays.origins()])

    # --- the run under way --------------------------------------------------------------------------------------

    def move_to(self, run: OpenRun, now: Instant, out: list[ClosedBlock]) -> None:
        """Let this be the run that readings without an epoch are of."""
        if run is not self._runs.current:
            self._close_before(now, out)
            self._runs.move_to(run)

    def _close_before(self, now: Instant, out: list[ClosedBlock]) -> None:
        """Close what is open of the run before, of which nobody knows the epoch: it is forgotten now."""
        before = self._runs.before
        if before is not None and not before.epoch:
            self._triggers.close(self._triggers.pool.of_run(before.run), now, out)
            self._triggers.tell_counts(now, out, every=True)

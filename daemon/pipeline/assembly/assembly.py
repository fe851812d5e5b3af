"""Assembly of one group: blocks of readings in, closed blocks out."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.closing import ONE_MOMENT_NS, close_slots
from daemon.pipeline.assembly.in_hand import DOUBLES_KEPT, InHand
from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.pool import FREE, Pool
from daemon.pipeline.assembly.progress import NEVER, Progress
from daemon.pipeline.assembly.receipts import Receipts
from daemon.pipeline.assembly.strays import Move, Strays
from daemon.pipeline.assembly.window import CLOSED, UNKNOWN, Merged, Window
from schemas.batch import ClosedBlock
from schemas.ledger import ledger_dtype
from schemas.readings import Array, InstrumentGroup, join

SLICE = 16_384
"""Readings worked on at once: enough to make numpy's fixed costs small, few enough to stay in the cache."""

COUNTS_EVERY_NS = 1_000_000_000
COUNTS_MOST = 2048
"""Ledger rows that changed by nothing but doubles are given out so often, and so many at once: a sender that goes round
and round over thousands of closed triggers would else have them written faster than a database can."""

NO_SLOTS = np.empty(0, np.intp)


@dataclass(kw_only=True)
class AssemblyCounts:
    """Counts since the start. Readings: received = accepted + duplicate + refused + held back as strays."""

    received: int = 0
    accepted: int = 0
    late: int = 0
    duplicate: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    opened: int = 0
    complete: int = 0
    incomplete: int = 0
    missing: int = 0  # instruments, summed over the triggers that closed incomplete


class Assembly:
    """Puts the readings of a group's triggers together.

    A trigger closes when every instrument is there, or `timeout_ns` after its first reading. What comes for a closed
    trigger within the window is late, and comes out with the trigger's revised ledger row. Every method that may
    close triggers returns the closed blocks to commit, in order; each is one of the receipts'.

    history: ledger rows of the newest run as the store has them (ascending), so that a restarted daemon merges late
        readings and recognises doubles as if it had never stopped.
    next_run: given the number of the run that ends, the number of the one that begins.
    """

    def __init__(
        self,
        group: InstrumentGroup,
        *,
        timeout_ns: int,
        window: int,
        max_open: int,
        run: int,
        next_run: Callable[[int], int],
        history: Array | None = None,
    ) -> None:
        self.group = group
        self.counts = AssemblyCounts()
        self.receipts = Receipts()
        self._timeout_ns = timeout_ns
        self._next_run = next_run
        self._max_open = max_open
        self._slice = min(SLICE, window // 4)
        self._pool = Pool(group, max_open)
        self._strays = Strays(group.size, group.record)
        self._window = Window(window, group.size, run)
        self._progress = Progress(group.size, self._window.half)
        self._doubles = np.empty(0, group.record)
        self._before: Window | None = None
        self._counts_due_ns = 0
        self._started_ns = NEVER
        if history is not None and len(history):
            self._window.close(history)
            self._progress.resume(int(history["trigger"][-1]), int(history["last_ns"][-1]))

    @property
    def run(self) -> int:
        """The number of the run under way."""
        return self._window.run

    @property
    def open(self) -> int:
        """How many triggers are open."""
        return self._pool.open

    @property
    def held(self) -> int:
        """How many readings wait here: those of open triggers, and strays."""
        return int(self._pool.arrived.sum()) + len(self._strays)

    @property
    def wanted(self) -> int:
        """How many readings the fullest open trigger still lacks: with fewer, nothing can become complete."""
        return self.group.size - int(self._pool.arrived.max())

    @property
    def newest(self) -> int | None:
        """The highest trigger number closed in this run."""
        return self._progress.newest

    @property
    def deadline_ns(self) -> int | None:
        """Monotonic time at which `close_due` has something to do."""
        due = [int(self._pool.opened.min()) + self._timeout_ns] if self._pool.open else []
        if self._strays.oldest_ns is not None:
            due.append(self._strays.oldest_ns + self._timeout_ns)
        if any(window.is_counting for window in self._windows):
            due.append(self._counts_due_ns)
        return min(due, default=None)

    @property
    def _windows(self) -> list[Window]:
        return [self._window] if self._before is None else [self._before, self._window]

    def in_hand(self, most: int) -> InHand:
        """What has come for triggers that are not closed yet (the newest `most` of these), and what fits none."""
        trigger, times, present = self._pool.newest(most)
        doubles, self._doubles = self._doubles, self._doubles[:0]
        return InHand(
            run=self.run,
            trigger=trigger,
            times=times,
            present=present,
            strays=self._strays.held(),
            doubles=doubles,
        )

    def receive(self, block: Array, origin: Origin | None, now: Instant) -> list[ClosedBlock]:
        """Take readings: record dtype, shape (n,). A timestamp of 0 is replaced by the time of receipt, in place."""
        if origin is None:
            origin = Origin.of(-1, 0, len(block))
        self.receipts.received(origin)
        self.counts.received += len(block)
        out: list[ClosedBlock] = []
        for start in range(0, len(block), self._slice):
            part = slice(start, start + self._slice)
            self._receive(block[part], origin[part], now, out)
        return out

    def close_due(self, now: Instant) -> list[ClosedBlock]:
        """Close the triggers, and let go of the strays, whose time is over."""
        out: list[ClosedBlock] = []
        due = now.monotonic_ns - self._timeout_ns
        if self._strays.oldest_ns is not None and self._strays.oldest_ns <= due:
            self._let_go(due, now, out)
        self._close(np.flatnonzero(self._pool.opened <= due), now, out)
        self._tell_counts(now, out)
        return out

    def restart_timeouts(self, now: Instant) -> None:
        """Count the timeouts of all that is open from now on: for a while nothing could come."""
        self._pool.opened[self._pool.opened != FREE] = now.monotonic_ns
        self._strays.restart(now.monotonic_ns)

    def change_timeout(self, timeout_ns: int) -> None:
        """Close triggers so long after their first reading from now on, those that are open too."""
        self._timeout_ns = timeout_ns

    def flush(self, now: Instant) -> list[ClosedBlock]:
        """Close everything, as at the end of the service."""
        out: list[ClosedBlock] = []
        self._let_go(now.monotonic_ns, now, out)
        self._close(self._pool.oldest(self._pool.open), now, out)
        self._tell_counts(now, out, every=True)
        return out

    def open_run(self, now: Instant) -> list[ClosedBlock]:
        """Begin a new run: the timing system was restarted. All that is open closes in the old one."""
        out: list[ClosedBlock] = []
        self._close(self._pool.oldest(self._pool.open), now, out)
        self._tell_counts(now, out, every=True)
        self._before = self._window
        self._window = Window(self._before.size, self.group.size, self._next_run(self._before.run))
        self._progress = Progress(self.group.size, self._window.half)
        return out

    # --- which readings fit the run -----------------------------------------------------------------------------

    def _receive(self, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        known = block["instrument"] < self.group.size
        if not known.all():
            self._refuse("unknown_instrument", origin[~known])
            block, origin = block[known], origin[known]
        times = block["time_ns"]
        if not times.all():
            times[times == 0] = now.utc_ns
        if self._before is not None:
            block, origin = self._accept_before(self._before, block, origin, now, out)
        stray = self._progress.is_stray(block)
        if not stray.any():
            self._accept(block, origin, now, out)
            return
        self._accept(block[~stray], origin[~stray], now, out)
        self._hold(block[stray], origin[stray], now, out)

    def _hold(self, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        held = self._strays.hold(block, origin, now.monotonic_ns)
        # Before the first trigger there is nothing to protect: better to begin early than to refuse for want of room.
        self._follow(now, out, expired=self._progress.front is None and not held.all())
        if not held.all():
            self._accept_near(block[~held], origin[~held], now, out)
        self.receipts.wait_as_strays(self._strays.origins())

    def _let_go(self, until_ns: int, now: Instant, out: list[ClosedBlock]) -> None:
        """Settle the strays that came until then (monotonic): they move the run, or go where their numbers say."""
        if not self._follow(now, out, expired=True):
            for block, origin in self._strays.release(until_ns):
                self._accept_near(block, origin, now, out)
        self.receipts.wait_as_strays(self._strays.origins())

    def _follow(self, now: Instant, out: list[ClosedBlock], *, expired: bool) -> bool:
        """Follow the machine where most instruments have gone; return whether there was a move."""
        verdict = self._strays.judge(
            self._progress.front,
            self._window.half,
            self._started_ns,
            self._voters(now, expired=expired),
            expired=expired,
        )
        if verdict is None:
            return False
        if verdict.move is Move.RESTART:
            out.extend(self.open_run(now))
        if verdict.move is not Move.JUMP:
            self._started_ns = verdict.started_ns
        self._progress.front = verdict.front
        for block, origin in self._strays.release(now.monotonic_ns):
            self._accept_near(block, origin, now, out)
        return True

    def _voters(self, now: Instant, *, expired: bool) -> int:
        """How many instruments have a say in where the run is; more than half of them can move it."""
        if not expired:
            return self._progress.active()
        # Time is over: the silent have no say any more, or a group with dead instruments would be stuck for ever.
        heard = self._progress.heard_since(now.monotonic_ns - 2 * self._timeout_ns)
        heard[self._strays.instruments()] = True
        return int(heard.sum())

    def _refuse(self, reason: str, origin: Origin) -> None:
        count = len(origin.column)
        if count:
            self.receipts.refuse(origin)
            self.counts.refused[reason] = self.counts.refused.get(reason, 0) + count

    # --- where they go ------------------------------------------------------------------------------------------

    def _accept_near(self, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        far = self._progress.is_far(block["trigger"])
        self._refuse("far_trigger", origin[far])
        self._accept(block[~far], origin[~far], now, out)

    def _accept_before(
        self, window: Window, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]
    ) -> tuple[Array, Origin]:
        """Merge what still comes for the run before; return the rest.

        Such a reading was taken before this run began, and its timestamp is that of its trigger: an instrument with a
        slow clock must not end up in the wrong run. Nor must one that comes late, its clock a little behind those
        that voted for this run: of a number that both runs have reached, it lies nearer to where this one began.
        """
        old = block["time_ns"] < self._started_ns
        if not old.any():
            return block, origin
        apart = window.apart(block)
        old &= apart < ONE_MOMENT_NS
        if self._progress.front is not None:
            reached = block["trigger"] <= self._progress.front
            old &= ~reached | (apart <= self._started_ns - block["time_ns"])
        if old.any():
            self._close(NO_SLOTS, now, out, self._merge(window, block[old], origin[old], now))
            self._tell_counts(now, out)
        return block[~old], origin[~old]

    def _accept(self, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        if not len(block):
            return
        triggers = np.ascontiguousarray(block["trigger"])
        slots = self._slots(triggers, now, out)
        if slots is None:  # more new triggers at once than may be open
            half = len(block) // 2
            self._accept(block[:half], origin[:half], now, out)
            self._accept(block[half:], origin[half:], now, out)
            return
        merged = None
        closed = slots == CLOSED
        if closed.any():
            merged = self._merge(self._window, block[closed], origin[closed], now)
            block, origin, slots = block[~closed], origin[~closed], slots[~closed]
        self._close(self._put(block, origin, slots, now), now, out, merged)
        self._tell_counts(now, out)

    def _slots(self, triggers: Array, now: Instant, out: list[ClosedBlock]) -> Array | None:
        """The slot of each reading's trigger, opening those that are new; None if these are too many."""
        slots = self._window.slots(triggers)
        unknown = slots == UNKNOWN
        if not unknown.any():
            return slots
        new = _distinct(triggers[unknown])
        if len(new) > max(1, self._max_open // 2):
            return None
        self._open(new, now, out)
        return self._window.slots(triggers)

    def _open(self, triggers: Array, now: Instant, out: list[ClosedBlock]) -> None:
        self._close(self._window.occupied(triggers), now, out)
        missing = self._pool.missing_slots(len(triggers))
        if missing:
            self._close(self._pool.oldest(missing), now, out)
        if self._window.would_forget(triggers):
            self._tell_counts(now, out, every=True)
        self._window.open(triggers, self._pool.take(triggers, now.utc_ns, now.monotonic_ns))
        self.counts.opened += len(triggers)

    def _put(self, block: Array, origin: Origin, slots: Array, now: Instant) -> Array:
        """Put readings into open triggers; return the slots that became complete."""
        if not len(block):
            return NO_SLOTS
        self.receipts.wait_in_slots(slots, origin)
        taken, touched = self._pool.scatter(slots, block)
        accepted = int(np.count_nonzero(taken))
        if accepted < len(block):
            self._keep_doubles(block[~taken])
        self.counts.accepted += accepted
        self.counts.duplicate += len(block) - accepted
        self._pool.last_received[touched] = now.utc_ns
        return self._pool.complete(touched)

    def _merge(self, window: Window, block: Array, origin: Origin, now: Instant) -> Merged:
        self.receipts.wait_in_next_block(origin)
        merged = window.merge(block, now.utc_ns)
        self.counts.accepted += len(merged.late)
        self.counts.late += len(merged.late)
        self.counts.duplicate += len(merged.doubles)
        self._keep_doubles(merged.doubles)
        return merged

    def _keep_doubles(self, doubles: Array) -> None:
        if len(doubles):
            self._doubles = join([self._doubles, doubles[-DOUBLES_KEPT:]])[-DOUBLES_KEPT:]

    def _tell_counts(self, now: Instant, out: list[ClosedBlock], *, every: bool = False) -> None:
        """Give out ledger rows in which doubles were counted: a few a second, whatever senders do; or `every` one."""
        for window in self._windows:
            while window.is_counting and (every or now.monotonic_ns >= self._counts_due_ns):
                self._counts_due_ns = now.monotonic_ns + COUNTS_EVERY_NS
                none = np.empty(0, self.group.record)
                rows = window.counted(COUNTS_MOST)
                self._close(NO_SLOTS, now, out, Merged(late=none, late_of=NO_SLOTS, revised=rows, doubles=none))

    def _close(self, slots: Array, now: Instant, out: list[ClosedBlock], merged: Merged | None = None) -> None:
        """Close these slots, in the order of their triggers, and hand out one closed block, with what was merged."""
        if not len(slots) and (merged is None or not len(merged.revised)):
            return
        slots = slots[np.argsort(self._pool.trigger[slots], kind="stable")]
        self.receipts.close(slots)
        readings, present, ledger = close_slots(self._pool, slots, self._window.run, now)
        if len(ledger):
            self._window.close(ledger)
            self._progress.advance(ledger["trigger"], readings["time_ns"], present, now.monotonic_ns)
            self._count_closed(ledger)
        out.append(
            ClosedBlock(
                readings=readings,
                present=present,
                ledger=ledger,
                late=merged.late if merged else np.empty(0, self.group.record),
                late_of=merged.late_of if merged else NO_SLOTS,
                revised=merged.revised if merged else np.empty(0, ledger_dtype(self.group.size)),
            )
        )

    def _count_closed(self, ledger: Array) -> None:
        missing = int((ledger["expected"] - ledger["arrived"]).sum())
        incomplete = int(np.count_nonzero(ledger["arrived"] < ledger["expected"])) if missing else 0
        self.counts.missing += missing
        self.counts.incomplete += incomplete
        self.counts.complete += len(ledger) - incomplete


def _distinct(values: Array) -> Array:
    """The distinct values, ascending. Neighbours are mostly equal, so most of the work is one comparison."""
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.unique(np.concatenate([values[:1], values[changes]]))

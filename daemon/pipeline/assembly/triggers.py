"""The triggers of a group, in all open runs: readings go in, and what is closed comes out in closed blocks."""

from dataclasses import replace

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.open_runs import OpenRuns
from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.outcomes import Outcomes, ReadingSet
from daemon.pipeline.assembly.pool import Pool, close_slots
from daemon.pipeline.assembly.receipts import Receipts
from daemon.pipeline.assembly.runs import OpenRun
from daemon.pipeline.assembly.sessions import Sessions
from daemon.pipeline.assembly.window import CLOSED, UNKNOWN
from schemas.batch import ClosedBlock
from schemas.readings import Array, InstrumentGroup, join
from schemas.states import AsideReason

COUNTS_EVERY_NS = 1_000_000_000
COUNTS_MOST = 2048
"""Ledger rows that changed by nothing but doubles are given out so often, and so many at once: a sender that goes round
and round over thousands of closed triggers would else have them written faster than a database can."""

DOUBLES_KEPT = 1024

NO_SLOTS = np.empty(0, np.intp)


class Triggers(Outcomes):
    """Open and closed triggers; `Assembly` says of which run readings are.

    What has closed is appended to `out`, in order.
    """

    def __init__(
        self,
        group: InstrumentGroup,
        *,
        max_open: int,
        runs: OpenRuns,
        receipts: Receipts,
        sessions: Sessions,
        letters: ReadingSet,
    ) -> None:
        super().__init__(group, receipts, sessions, letters)
        self.pool = Pool(group, max_open)
        self.doubles = np.empty(0, group.record)
        self.counts_due_ns = 0
        self._max_open = max_open
        self._runs = runs
        self._touched: list[Array] = []
        self._has_closed_early = False  # in this step, before its end
        self._closed_of: list[int] = []  # numbers of other runs than the current one in which triggers closed

    def leave(self, block: Array, origin: Origin, run: int, now: Instant) -> None:
        """Leave readings of a run to the database, whose triggers nobody here remembers; run: 0 where it is unknown."""
        if not len(block):
            return
        compared = self._are_compared(block, origin, now) & (run > 0)
        self.set_aside(block[~compared], origin[~compared], run, AsideReason.OLDER)
        self.set_aside(block[compared], origin[compared], run, AsideReason.DOUBTFUL)

    def _are_compared(self, block: Array, origin: Origin, now: Instant) -> Array:
        """Which readings are compared with what the database has in their place: bool, shape (n,).

        A session says of a reading that it is not lost, so it is no duplicate without proof. With the time of their
        receipt for a timestamp readings would differ from themselves.
        """
        wanted = self.sessions.are_of_any(origin)
        return np.asarray(wanted & (block["time_ns"] != now.utc_ns))

    def accept_near(self, run: OpenRun, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        """Accept readings that lie within the window, and set the others aside."""
        far = self.are_far(run, block)
        if far.any():
            gone = far & run.progress.is_gone(block["trigger"])
            self.leave(block[gone], origin[gone], run.run, now)
            ahead = far & ~run.progress.is_older(block["trigger"])
            self.set_aside(block[ahead], origin[ahead], 0, AsideReason.AHEAD)
            far = gone | ahead
        self.accept(run, block[~far], origin[~far], now, out)

    def accept(self, run: OpenRun, block: Array, origin: Origin, now: Instant, out: list[ClosedBlock]) -> None:
        """Put readings of a run into open triggers, opening those that are new, or merge them into closed ones."""
        if not len(block):
            return
        triggers = np.ascontiguousarray(block["trigger"])
        slots = self._slots(run, triggers, now, out)
        if slots is None:  # more new triggers at once than may be open
            half = len(block) // 2
            self.accept(run, block[:half], origin[:half], now, out)
            self.accept(run, block[half:], origin[half:], now, out)
            return
        if slots.min() < 0:
            # A known number a whole window ahead has the place of what is forgotten, perhaps since this very block.
            forgotten, closed = slots == UNKNOWN, slots == CLOSED
            self.leave(block[forgotten], origin[forgotten], run.run, now)
            if closed.any():
                self.merge(run, block[closed], origin[closed], now)
            is_open = slots >= 0
            block, origin, slots = block[is_open], origin[is_open], slots[is_open]
        if len(block):
            self._put(run, block, origin, slots, now)

    def _slots(self, run: OpenRun, triggers: Array, now: Instant, out: list[ClosedBlock]) -> Array | None:
        """The slot of each reading's trigger, opening those that are new; None if these are too many."""
        # Neighbours are mostly of one trigger, which is then looked up once.
        changes = np.flatnonzero(triggers[1:] != triggers[:-1]) + 1
        numbers = np.concatenate([triggers[:1], triggers[changes]])
        slots = run.window.slots(numbers)
        if slots.min() == UNKNOWN:
            new = numbers[slots == UNKNOWN]
            new = np.unique(new) if len(new) > 1 else new
            new = run.window.each_in_its_place(new[~run.window.are_behind(new)])
            if len(new) > max(1, self._max_open // 2):
                return None
            if len(new):
                self._open(run, new, now, out)
            slots = run.window.slots(numbers)
        counts = np.diff(np.concatenate([[0], changes, [len(triggers)]]))
        return np.repeat(slots, counts)

    def _open(self, run: OpenRun, triggers: Array, now: Instant, out: list[ClosedBlock]) -> None:
        occupied = run.window.occupied(triggers)
        if len(occupied):
            self.close(occupied, now, out)
        missing = self.pool.missing_slots(len(triggers))
        if missing:
            self.close(self.pool.oldest(missing), now, out)
        if run.window.would_forget(triggers):
            self.tell_counts(now, out, every=True)
        run.window.open(triggers, self.pool.take(run.run, triggers, now.utc_ns, now.monotonic_ns))
        self.counts.opened += len(triggers)
        self.counts.skipped -= run.window.take_fewer_skipped()

    def _put(self, run: OpenRun, block: Array, origin: Origin, slots: Array, now: Instant) -> None:
        """Put readings into open triggers; those that become complete are closed at the end of the step."""
        taken, touched = self.pool.scatter(slots, block)
        accepted = int(np.count_nonzero(taken))
        waits = taken
        if accepted < len(block):
            others = np.flatnonzero(~taken)
            same = self.pool.is_same(slots[others], block[others])
            copies = self.pool.is_copy(slots[others], block[others])
            double = self._are_doubles(run, block[others], origin[others], same, copies)
            np.add.at(self.pool.duplicates, slots[others[double]], 1)
            waits = taken.copy()
            waits[others[double]] = True
        self.receipts.wait_in_slots(slots[waits], origin[waits])
        self.counts.accepted += accepted
        self.pool.last_received[touched] = now.utc_ns
        self._touched.append(touched)

    def merge(self, run: OpenRun, block: Array, origin: Origin, now: Instant) -> None:
        """Merge readings of closed triggers."""
        keep = run.window.is_missing(block)
        if not keep.all():
            run.window.span(block[keep])  # with what was missing a trigger may span more than a moment
            is_within = run.window.is_within(block)
            doubtful = ~keep & self._are_doubtful(run, block, origin, is_within, now)
            self.set_aside(block[doubtful], origin[doubtful], run.run, AsideReason.DOUBTFUL)
            others = np.flatnonzero(~keep & ~doubtful)
            keep[others] = self._are_doubles(run, block[others], origin[others], is_within[others])
        self.receipts.wait_in_next_block(origin[keep])
        merged = run.window.merge(block[keep], now.utc_ns)
        self.counts.accepted += len(merged.late)
        self.counts.late += len(merged.late)
        run.progress.advance_late(merged.late, now.monotonic_ns)
        self.unplaced.merge(merged)

    def _are_doubtful(self, run: OpenRun, block: Array, origin: Origin, same_time: Array, now: Instant) -> Array:
        """Which readings may be those in their places, for all that is known: bool, shape (n,).

        They may have come in an earlier process; or only their time speaks for it, and not clearly.
        """
        is_vague = (block["epoch"] == 0) & run.window.is_wide(block) & (block["time_ns"] != now.utc_ns)
        doubtful = (self._are_compared(block, origin, now) | is_vague) & ~self.sessions.is_new(origin)
        return np.asarray(doubtful & ((block["epoch"] != 0) | same_time))

    def _are_doubles(
        self, run: OpenRun, block: Array, origin: Origin, same_time: Array, copies: Array | None = None
    ) -> Array:
        """Which readings came before, of those whose place is taken; the others are set aside: bool, shape (n,).

        An epoch, or the time, says which reading it is; but one whose number in its session is new is another, unless
        it is a copy, byte for byte, of what is there. What is there of an open trigger came in this process, in which
        no session repeats a number.
        """
        new = self.sessions.is_new(origin) if copies is None else self.sessions.are_of_any(origin) & ~copies
        double = ((block["epoch"] != 0) | same_time) & ~new
        self.set_aside(block[new], origin[new], run.run, AsideReason.CONFLICT)
        odd = ~double & ~new
        self.set_aside(block[odd], origin[odd], run.run, AsideReason.AMBIGUOUS)
        self.counts.duplicate += int(np.count_nonzero(double))
        self.doubles = join([self.doubles, block[-DOUBLES_KEPT:]])[-DOUBLES_KEPT:]
        return np.asarray(double)

    def fit_open(self, run: OpenRun, block: Array) -> Array:
        """Return which readings an open trigger of the run has, or lacks and is of their time: bool, shape (n,)."""
        slots = run.window.slots(block["trigger"])
        fit: Array = slots >= 0
        if fit.any():
            fit[fit] = self.pool.fit(slots[fit], block[fit])
        return fit

    def are_far(self, run: OpenRun, block: Array) -> Array:
        """Which readings are of triggers outside the window, and of none that is remembered: bool, shape (n,)."""
        far = run.progress.is_far(block["trigger"])
        return far & (run.window.slots(block["trigger"]) == UNKNOWN) if far.any() else far

    def note_placed(self, run: int, triggers: Array) -> int:
        """Take note of triggers of a run that the database gets now; return its epoch, 0 where it is not known."""
        found = self._runs.of_number(run)
        if found is None:
            return 0
        found.window.note_placed(triggers)
        self.counts.skipped -= found.window.take_fewer_skipped()
        return found.epoch

    # --- closing ------------------------------------------------------------------------------------------------

    def close_complete(self, now: Instant, out: list[ClosedBlock]) -> None:
        """Close what has become complete, with all that is to go with the next closed block."""
        touched = self._touched
        slots = NO_SLOTS
        if touched:
            slots = self.pool.complete(touched[0] if len(touched) == 1 else np.unique(np.concatenate(touched)))
            self._touched = []
        self.close(slots, now, out)

    def take_leading(self) -> OpenRun | None:
        """Return a run that most instruments are in now, of those in which triggers closed since the last call."""
        numbers, self._closed_of = self._closed_of, []
        # Looked up now: since a trigger of it closed, a run may have been forgotten.
        runs = (self._runs.of_number(number) for number in dict.fromkeys(numbers))
        return next((run for run in runs if run is not None and self._runs.leads(run)), None)

    def end_step(self, now: Instant, out: list[ClosedBlock], before: int) -> None:
        """Every reading has its place, and all blocks of this step are closed; before: so many were so before that."""
        if self._has_closed_early and len(out) == before:
            # The last block closed while readings had no place yet: what is settled with it was not known then.
            rows = self.sessions.changed(self.pool.taken(), now)
            out[-1] = replace(out[-1], sessions=np.concatenate([out[-1].sessions, rows]))
        self._has_closed_early = False
        self.receipts.end_step()

    def tell_counts(self, now: Instant, out: list[ClosedBlock], *, every: bool = False) -> None:
        """Give out ledger rows in which doubles were counted: a few a second, whatever senders do; or `every` one."""
        for run in self._runs:
            while run.window.is_counting and (every or now.monotonic_ns >= self.counts_due_ns):
                self.counts_due_ns = now.monotonic_ns + COUNTS_EVERY_NS
                self.unplaced.revise(run.window.counted(COUNTS_MOST))
                self.close(NO_SLOTS, now, out)

    def close(self, slots: Array, now: Instant, out: list[ClosedBlock]) -> None:
        """Close these slots and hand out one closed block, with all that waits to go with the next one."""
        if not len(slots) and self.unplaced.is_empty:
            return
        if len(slots) > 1:
            slots = slots[np.lexsort((self.pool.trigger[slots], self.pool.run[slots]))]
        runs = self._runs_of(slots)
        opened_ns = self.pool.opened[slots]
        self.receipts.close(slots)
        readings, present, ledger = close_slots(self.pool, slots, now)
        for run, mine in runs:
            self._note_closed(run, readings[mine], present[mine], ledger[mine], opened_ns[mine])
        self._count_closed(ledger)
        sessions = self.sessions.changed(self.pool.taken(), now)
        out.append(self.unplaced.closed_block(readings, present, ledger, sessions))
        self._has_closed_early = True

    def _runs_of(self, slots: Array) -> list[tuple[OpenRun, slice]]:
        """Return the runs of open triggers, ordered by run, each with where it has its own."""
        numbers = self.pool.run[slots]
        starts = [0] if len(numbers) else []
        if len(numbers) and numbers[0] != numbers[-1]:
            starts += (np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()
        found = []
        for start, end in zip(starts, [*starts[1:], len(numbers)], strict=False):
            run = self._runs.of_number(int(numbers[start]))
            assert run is not None, "a run with open triggers is in memory"
            found.append((run, slice(start, end)))
        return found

    def _note_closed(self, run: OpenRun, readings: Array, present: Array, rows: Array, opened_ns: Array) -> None:
        """Complete ledger rows of a run by what it knows, and let it take note of them."""
        rows["epoch"] = run.epoch
        rows["skipped"], counted = run.window.skipped(rows["trigger"])
        self.counts.skipped += counted
        run.window.close(rows)
        run.progress.advance(rows["trigger"], readings["time_ns"], present, opened_ns)
        run.note_begin(rows)
        if run is not self._runs.current:
            self._closed_of.append(run.run)

    def _count_closed(self, ledger: Array) -> None:
        missing = int((ledger["expected"] - ledger["arrived"]).sum())
        incomplete = int(np.count_nonzero(ledger["arrived"] < ledger["expected"])) if missing else 0
        self.counts.missing += missing
        self.counts.incomplete += incomplete
        self.counts.complete += len(ledger) - incomplete

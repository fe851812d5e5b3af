"""Assembly of a group that reports on change: each reading is whole in itself, and nothing waits for another.

A closed block has no triggers: its late readings are the reports, and its revised rows tell which each one is, by
instrument in the place of the run, and by time in that of the trigger. So backlog, committer and dead letters go on as
with readings that came late, and a dead letter is one report.
"""

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.assembly import InHand
from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.outcomes import Outcomes, ReadingSet
from daemon.pipeline.assembly.receipts import Receipts
from daemon.pipeline.assembly.sessions import Sessions
from daemon.pipeline.assembly.window import Merged
from schemas.batch import ClosedBlock
from schemas.folders.blocks import OPEN
from schemas.folders.reports import are_same, have_part
from schemas.ledger import ledger_dtype
from schemas.readings import Array, InstrumentGroup
from schemas.states import AsideReason

SLICE = 16_384
"""Reports that one closed block has at most."""

AHEAD_NS = 3_600_000_000_000
"""A report whose time lies further ahead of the clock of this node is set aside: it would hold from then on, and end
what was reported by then."""

NO_SLOTS = np.empty(0, np.intp)


class ReportAssembly(Outcomes):
    """Takes the reports of a group, and gives each block of them out at once; its methods are those of `Assembly`.

    Two reports of one instrument and time are one, where they have the same values; the second of two others is set
    aside. What the store has is not known here: it takes what it has already once more, and changes nothing.
    """

    run = 0
    begun = 0
    brief_runs = 0
    newest: int | None = None
    open = 0
    held = 0
    wanted = 1
    deadline_ns: int | None = None

    def __init__(self, group: InstrumentGroup, sessions: Sessions, receipts: Receipts, letters: ReadingSet) -> None:
        super().__init__(group, receipts, sessions, letters)
        self._group = group
        size = group.size
        self._no_triggers = (
            np.empty((0, size), group.record),
            np.empty((0, size), bool),
            np.empty(0, ledger_dtype(size)),
        )

    def let_set_aside(self, may: bool) -> None:
        """Whether the dead letters have room for what is set aside."""
        self.sets_aside = may

    def end_taking_again(self, now: Instant) -> None:
        """Nothing is taken again any more."""
        self.may_come_again = False

    def in_hand(self, most: int) -> InHand:
        """Nothing."""
        readings, present, ledger = self._no_triggers
        nothing = np.empty(0, self._group.record)
        return InHand(
            run=self.run,
            trigger=ledger["trigger"],
            times=readings["time_ns"],
            present=present,
            strays=nothing,
            doubles=nothing,
        )

    def receive(self, block: Array, origin: Origin | None, now: Instant) -> list[ClosedBlock]:
        """Take readings: record dtype, shape (n,). Each has a time by now: the intake gives those of receipt."""
        if origin is None:
            origin = Origin.of(-1, 0, len(block))
        self.counts.received += len(block)
        self.unplaced.refill(now.monotonic_ns)
        out: list[ClosedBlock] = []
        for start in range(0, len(block), SLICE):
            part = slice(start, start + SLICE)
            self.receipts.received(origin[part])
            self._receive(block[part], origin[part], now)
            self._end_step(now, out)
        return out

    def take_again(self, block: Array, now: Instant, origin: Origin | None = None) -> list[ClosedBlock]:
        """Take readings that were taken before, and may be stored: record dtype, shape (n,)."""
        return self.receive(block, origin, now)

    def close_due(self, now: Instant) -> list[ClosedBlock]:
        """Nothing is open."""
        return []

    def flush(self, now: Instant) -> list[ClosedBlock]:
        """Nothing is open."""
        return []

    def restart_timeouts(self, now: Instant) -> None:
        """Nothing is open."""

    def change_timeout(self, timeout_ns: int) -> None:
        """Nothing is open."""

    def tell_sessions(self, now: Instant) -> list[ClosedBlock]:
        """A closed block that says what is settled by nothing but refusals, which would else be said with the next."""
        out: list[ClosedBlock] = []
        if self.sessions.has_unsaid(NO_SLOTS):
            self.unplaced.is_awaited = True
            self._end_step(now, out)
        return out

    def ended(self, epoch: int) -> int | None:
        """Reports have no epochs."""
        return None

    def announce(self, epoch: int, now: Instant) -> tuple[int | None, list[ClosedBlock]]:
        """A restart of the timing system is nothing to reports."""
        return None, []

    def note_placed(self, run: int, triggers: Array) -> int:
        """Reports have no epochs, and nothing is placed by the ledger."""
        return 0

    # --- one step ----------------------------------------------------------------------------------------------------

    def _receive(self, block: Array, origin: Origin, now: Instant) -> None:
        block, origin = self._without_impossible(block, origin)
        block, origin = self._without_letters(block, origin)
        block, origin = self._without(have_part(block, self._group), block, origin, AsideReason.PARTIAL)
        block, origin = self._without(block["time_ns"] > now.utc_ns + AHEAD_NS, block, origin, AsideReason.FUTURE)
        self._close(*self._each_once(block, origin))

    def _without(self, bad: Array, block: Array, origin: Origin, reason: AsideReason) -> tuple[Array, Origin]:
        if not bad.any():
            return block, origin
        self.set_aside(block[bad], origin[bad], 0, reason)
        return block[~bad], origin[~bad]

    def _without_impossible(self, block: Array, origin: Origin) -> tuple[Array, Origin]:
        """Refuse readings that can be none of the group's; return the others."""
        unknown = block["instrument"] >= self._group.size
        impossible = (block["time_ns"] < 0) | (block["time_ns"] == OPEN)
        bad = unknown | impossible
        if not bad.any():
            return block, origin
        for reason, these in (("unknown_instrument", unknown), ("impossible_time", impossible & ~unknown)):
            if these.any():
                self.refuse(reason, origin[these])
        return block[~bad], origin[~bad]

    def _without_letters(self, block: Array, origin: Origin) -> tuple[Array, Origin]:
        """What was sent before, and made a dead letter of then, is a double."""
        double = self.sessions.may_be_resent(origin) | self.receipts.are_promised(origin)
        double &= self._letters.have(block)
        return self._without_doubles(block, origin, double)

    def _without_doubles(self, block: Array, origin: Origin, double: Array) -> tuple[Array, Origin]:
        if not double.any():
            return block, origin
        self.counts.duplicate += int(np.count_nonzero(double))
        self.receipts.wait_in_next_block(origin[double])
        self.unplaced.is_awaited = True
        return block[~double], origin[~double]

    def _each_once(self, block: Array, origin: Origin) -> tuple[Array, Origin]:
        """Of several reports of one instrument and time, the first."""
        order = np.lexsort((block["time_ns"], block["instrument"]))
        ordered = block[["instrument", "time_ns"]][order]
        is_first = np.ones(len(block), bool)
        is_first[1:] = ordered[1:] != ordered[:-1]
        if is_first.all():
            return block, origin
        again = np.flatnonzero(~is_first)
        before = np.maximum.accumulate(np.where(is_first, np.arange(len(block)), 0))[again]
        same = are_same(block[order[again]], block[order[before]], self._group)
        other, double = np.zeros(len(block), bool), np.zeros(len(block), bool)
        other[order[again[~same]]] = double[order[again[same]]] = True
        self.set_aside(block[other], origin[other], 0, AsideReason.CONFLICT)
        return self._without_doubles(block[~other], origin[~other], double[~other])

    def _close(self, block: Array, origin: Origin) -> None:
        if not len(block):
            return
        self.counts.accepted += len(block)
        self.receipts.wait_in_next_block(origin)
        rows = np.zeros(len(block), ledger_dtype(self._group.size))
        rows["run"], rows["trigger"] = block["instrument"], block["time_ns"]
        rows["time_ns"] = block["time_ns"]
        self.unplaced.merge(Merged(late=block.copy(), late_of=np.arange(len(block)), revised=rows))

    def _end_step(self, now: Instant, out: list[ClosedBlock]) -> None:
        """Every reading has its place: give out what there is as one closed block."""
        self.receipts.placed()
        if not self.unplaced.is_empty:
            self.receipts.close(NO_SLOTS)
            sessions = self.sessions.changed(NO_SLOTS, now)
            out.append(self.unplaced.closed_block(*self._no_triggers, sessions))
        self.receipts.end_step()

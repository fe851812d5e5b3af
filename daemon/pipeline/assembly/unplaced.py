"""What goes with the next closed block beside its triggers: late readings, revised rows, and what is set aside."""

from dataclasses import replace

import numpy as np

from daemon.pipeline.assembly.window import Merged
from daemon.pipeline.closed_blocks import merge
from schemas.batch import Aside, ClosedBlock
from schemas.ledger import ledger_dtype
from schemas.readings import Array, InstrumentGroup
from schemas.states import FOR_THE_DATABASE, AsideReason

A_SECOND = 1024
"""Readings of one instrument set aside in a second; more are refused, or a mad sender would fill the disk."""

SECOND_NS = 1_000_000_000


class Unplaced:
    """Collects what belongs to triggers that were closed before, and what belongs to none."""

    def __init__(self, group: InstrumentGroup) -> None:
        self._group = group
        self._merged: list[Merged] = []
        self._aside: list[Aside] = []
        self.is_awaited = False  # a closed block has to come, whatever is in it
        self._left = np.full(group.size, A_SECOND, np.int32)
        self._refilled_ns = -SECOND_NS
        self._none = Merged(
            late=np.empty(0, group.record),
            late_of=np.empty(0, np.intp),
            revised=np.empty(0, ledger_dtype(group.size)),
        )

    def refill(self, monotonic_ns: int) -> None:
        """Let each instrument have its share again, if a second has passed."""
        if monotonic_ns - self._refilled_ns >= SECOND_NS:
            self._refilled_ns = monotonic_ns
            self._left[:] = A_SECOND

    def fits(self, block: Array, run: int, reason: AsideReason) -> Array:
        """Which readings may be set aside, each instrument's first ones: bool, shape (n,).

        What the database can place is no burden, however much comes at once.
        """
        if reason in FOR_THE_DATABASE and run:
            return np.ones(len(block), bool)
        instruments = block["instrument"]
        order = np.argsort(instruments, kind="stable")
        ordered = instruments[order]
        rank = np.empty(len(block), np.intp)
        rank[order] = np.arange(len(block)) - np.searchsorted(ordered, ordered)
        fits = np.asarray(rank < self._left[instruments])
        np.subtract.at(self._left, instruments[fits], 1)
        return fits

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be given out; doubles alone have not."""
        return not self.is_awaited and not self._aside and not any(len(merged.revised) for merged in self._merged)

    def merge(self, merged: Merged) -> None:
        """Take readings that came late."""
        self._merged.append(merged)

    def revise(self, rows: Array) -> None:
        """Take ledger rows in which nothing but counts changed."""
        self._merged.append(replace(self._none, revised=rows))

    def set_aside(self, block: Array, run: int, reason: AsideReason) -> None:
        """Take readings that belong to no trigger."""
        self._aside.append(Aside.of(block.copy(), run, reason))

    def closed_block(self, readings: Array, present: Array, ledger: Array, sessions: Array) -> ClosedBlock:
        """The closed block of these triggers, with all that was collected."""
        first, *more = [merged for merged in self._merged if len(merged.revised)] or [self._none]
        closed = ClosedBlock(
            readings=readings,
            present=present,
            ledger=ledger,
            late=first.late,
            late_of=first.late_of,
            revised=first.revised,
            aside=Aside.joined(self._aside),
            sessions=sessions,
        )
        if more:
            closed = merge([closed, *(self._late_alone(merged) for merged in more)])
        self._merged, self._aside, self.is_awaited = [], [], False
        return closed

    def _late_alone(self, merged: Merged) -> ClosedBlock:
        size = self._group.size
        return ClosedBlock(
            readings=np.empty((0, size), self._group.record),
            present=np.empty((0, size), bool),
            ledger=np.empty(0, ledger_dtype(size)),
            late=merged.late,
            late_of=merged.late_of,
            revised=merged.revised,
        )

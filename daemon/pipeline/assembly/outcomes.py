"""What becomes of readings that go into no trigger: they are refused, or set aside; and the counts of all."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.receipts import Receipts
from daemon.pipeline.assembly.sessions import Sessions
from daemon.pipeline.assembly.window import Merged
from daemon.pipeline.closed_blocks import merge
from schemas.batch import Aside, ClosedBlock
from schemas.ledger import ledger_dtype
from schemas.readings import Array, InstrumentGroup, field_bits, words
from schemas.states import FOR_THE_DATABASE, AsideReason

A_SECOND = 1024
"""Readings of one instrument set aside in a second; more are refused, or a mad sender would fill the disk."""

SECOND_NS = 1_000_000_000

_ODD = 0x9E37_79B9_7F4A_7C15
"""Any large odd number: its powers spread what differs in a few bits."""


class ReadingSet:
    """Readings that are recognised when they come again: record dtype, shape (n,).

    with_times: whether their times are among what is compared.
    """

    def __init__(self, readings: Array, *, with_times: bool = True) -> None:
        self._record = readings.dtype
        self._bits = field_bits(self._record) if with_times else _bits_but_for_times(self._record)
        self._without_times: ReadingSet | None = None  # made when it is asked for
        self._words = self._words_of(readings[:0])
        self._keys = _keys_of(self._words)
        self.add(readings)

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, readings: Array) -> None:
        """Take note of more of them: record dtype, shape (n,)."""
        both = np.concatenate([self._words, self._words_of(readings)])
        keys = _keys_of(both)
        order = np.argsort(keys, kind="stable")
        self._words, self._keys = both[order], keys[order]
        self._without_times = None

    def have(self, block: Array) -> Array:
        """Which readings are among them: bool, shape (n,)."""
        if not len(self):
            return np.zeros(len(block), bool)
        found = self._words_of(block)
        at = np.minimum(np.searchsorted(self._keys, _keys_of(found)), len(self) - 1)
        return np.asarray((self._words[at] == found).all(axis=1))

    def have_but_for_times(self, block: Array) -> Array:
        """Which readings are among them, whatever their times: bool, shape (n,)."""
        if self._without_times is None:
            self._without_times = ReadingSet(self._words.view(self._record)[..., 0], with_times=False)
        return self._without_times.have(block)

    def _words_of(self, readings: Array) -> Array:
        """What the readings hold, without padding, of which nobody knows what is in it: int64, shape (n, words)."""
        return words(np.ascontiguousarray(readings)) & self._bits


def _bits_but_for_times(record: np.dtype[Any]) -> Array:
    times = np.zeros(1, record)
    times["time_ns"] = -1
    bits: Array = field_bits(record) & ~words(times)[0]
    return bits


def _keys_of(found: Array) -> Array:
    """A number for each row of words, equal where the rows are: uint64, shape (n,)."""
    factors = np.array([pow(_ODD, k + 1, 2**64) for k in range(found.shape[1])], np.uint64)
    return np.asarray((found.view(np.uint64) * factors).sum(axis=1))


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


@dataclass(kw_only=True)
class AssemblyCounts:
    """Counts since the start. Readings: received = accepted + duplicate + refused + set aside + held back as strays.

    aside: readings by the name of `AsideReason`, in small letters. missing: instruments, summed over the triggers that
    closed incomplete. skipped: trigger numbers that no trigger was closed for; of what came after all, none.
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

    def plus(self, other: "AssemblyCounts") -> "AssemblyCounts":
        """Both together."""
        return self._with(other, 1)

    def less(self, other: "AssemblyCounts") -> "AssemblyCounts":
        """Return what is left without the other."""
        return self._with(other, -1)

    def copy(self) -> "AssemblyCounts":
        """The same counts, which do not change with these."""
        return self.plus(AssemblyCounts())

    def _with(self, other: "AssemblyCounts", sign: int) -> "AssemblyCounts":
        values = dict[str, Any]()
        for each in fields(self):
            mine, more = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, dict):
                keys = [*mine, *(key for key in more if key not in mine)]
                values[each.name] = {key: mine.get(key, 0) + sign * more.get(key, 0) for key in keys}
            else:
                values[each.name] = mine + sign * more
        return AssemblyCounts(**values)


class Outcomes:
    """Refuses readings, sets them aside, and counts them.

    sets_aside: whether the dead letters have room. may_come_again: something may still be taken again that has come by
    then. unplaced: what goes with the next closed block.
    """

    def __init__(self, group: InstrumentGroup, receipts: Receipts, sessions: Sessions, letters: ReadingSet) -> None:
        self.counts = AssemblyCounts()
        self.sets_aside = True
        self.may_come_again = True
        self.unplaced = Unplaced(group)
        self.receipts, self.sessions = receipts, sessions
        self._letters = letters

    def refuse(self, reason: str, origin: Origin) -> None:
        """Refuse readings, for a named reason."""
        count = len(origin.column)
        self.receipts.refuse(origin)
        if self.sessions.has_any(origin):
            # Acknowledged with a closed block, even an empty one: after a restart the session has to go on behind it.
            self.receipts.wait_in_next_block(origin)
            self.unplaced.is_awaited = True
        self.counts.refused[reason] = self.counts.refused.get(reason, 0) + count

    def set_aside(self, block: Array, origin: Origin, run: int, reason: AsideReason) -> None:
        """Let readings that can be put nowhere go on with the next closed block, with their run if known, else 0."""
        if not len(block):
            return
        fits = self._fit_aside(block, origin, run, reason)
        if not fits.all():
            self.refuse("no_room_aside", origin[~fits])
            block, origin = block[fits], origin[fits]
            if not len(block):
                return
        self.receipts.wait_in_next_block(origin)
        self.unplaced.set_aside(block, run, reason)
        if self.may_come_again and not (reason in FOR_THE_DATABASE and run):
            self._letters.add(block)  # its sender may still send it again
        name = reason.name.lower()
        self.counts.aside[name] = self.counts.aside.get(name, 0) + len(block)

    def _fit_aside(self, block: Array, origin: Origin, run: int, reason: AsideReason) -> Array:
        """Which readings may be set aside: bool, shape (n,)."""
        fits = self.receipts.are_promised(origin)
        fits[~fits] = self._have_room(block[~fits], run, reason)
        return fits

    def _have_room(self, block: Array, run: int, reason: AsideReason) -> Array:
        if self.sets_aside:
            return self.unplaced.fits(block, run, reason)
        # What an epoch proves to belong to its trigger goes to the database, and not to the dead letters.
        return np.asarray((block["epoch"] != 0) & (reason in FOR_THE_DATABASE and run > 0))

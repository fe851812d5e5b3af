"""The window: what is known of the triggers around the newest, open or closed."""

from dataclasses import dataclass

import numpy as np

from daemon.pipeline.assembly.progress import ONE_MOMENT_NS
from schemas.ledger import ledger_dtype
from schemas.readings import Array

NO_TRIGGER = np.iinfo(np.int64).min
CLOSED = -1
UNKNOWN = -2
FAR = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class Merged:
    """Readings of closed triggers, merged into their ledger rows.

    late: record dtype (l,), the readings that were missing. late_of: intp (l,), their rows in `revised`.
    revised: ledger dtype (r,), these rows as they are now; rows in which only doubles were counted are given out by
    `Window.counted`.
    """

    late: Array
    late_of: Array
    revised: Array


class Window:
    """A ring of `size` trigger numbers (a power of two): each with its slot while open, its ledger row once closed."""

    def __init__(self, size: int, instruments: int) -> None:
        self.size = size
        self.half = size // 2
        self._instruments = instruments
        self._mask = size - 1
        self._trigger = np.full(size, NO_TRIGGER, np.int64)
        self._slot = np.full(size, CLOSED, np.int32)
        self._ledger = np.zeros(size, ledger_dtype(instruments))
        self.is_counting = False
        self._counting = np.zeros(size, bool)
        self._counted_upto = 0
        self._in_gap = np.zeros(size, bool)  # opened, and not counted as skipped
        self._highest: int | None = None
        self._counted_from = NO_TRIGGER  # of the numbers up to this one none is counted as skipped
        self._has_earlier = False
        self._fewer_skipped = 0
        self._filled: dict[int, None] = {}  # numbers that were placed elsewhere
        self._closed: tuple[Array, Array, float] | None = None  # what `_line` says, until that changes

    @property
    def highest(self) -> int:
        """The highest number known; there is one."""
        assert self._highest is not None
        return self._highest

    def slots(self, triggers: Array) -> Array:
        """The slot of each trigger, CLOSED or UNKNOWN: int32, shape (n,)."""
        places = triggers & self._mask
        return np.where(self._trigger[places] == triggers, self._slot[places], np.int32(UNKNOWN))

    def are_behind(self, triggers: Array) -> Array:
        """Which unknown triggers lie a whole window or more behind a known one, in whose place they would be.

        bool, shape (n,). To open one would be to forget the newer one.
        """
        return np.asarray(self._trigger[triggers & self._mask] > triggers)

    def each_in_its_place(self, triggers: Array) -> Array:
        """Return triggers, ascending, without those in the place of a newer one: of both one would be forgotten."""
        if not len(triggers) or triggers[-1] - triggers[0] < self.size:
            return triggers
        _, last = np.unique((triggers & self._mask)[::-1], return_index=True)
        return np.asarray(triggers[np.sort(len(triggers) - 1 - last)])

    def occupied(self, triggers: Array) -> Array:
        """Slots of open triggers that lie a whole window before these and hold their places: int32, shape (k,)."""
        places = triggers & self._mask
        slots: Array = self._slot[places]
        open_before: Array = slots[(slots >= 0) & (self._trigger[places] != triggers)]
        return open_before

    def open(self, triggers: Array, slots: Array) -> None:
        """These triggers, ascending, are open now, in these slots."""
        places = triggers & self._mask
        self._closed = None
        self._trigger[places] = triggers
        self._slot[places] = slots
        if self._highest is None:
            self._counted_from = int(triggers[0])
        ahead = 0 if self._highest is None else int(np.searchsorted(triggers, self._highest, "right"))
        self._in_gap[places[ahead:]] = False
        if ahead < len(triggers):
            self._highest = int(triggers[-1])
        if ahead:
            self._fill(triggers[:ahead])

    def _fill(self, triggers: Array) -> None:
        """These, ascending, came after a higher one: they are skipped no more where that is closed."""
        known = np.sort(self._trigger)
        above = np.searchsorted(known, triggers, "right")
        for trigger, at in zip(triggers[::-1].tolist(), above[::-1].tolist(), strict=True):
            place = int(known[at]) & self._mask if at < len(known) else None
            in_gap = place is None or self._slot[place] == CLOSED or self._in_gap[place]
            self._in_gap[trigger & self._mask] = in_gap
            self._fewer_skipped += bool(in_gap) and trigger > self._counted_from

    def note_placed(self, triggers: Array) -> None:
        """Numbers too old to be opened here are triggers elsewhere, and skipped no more."""
        if self._highest is None:
            return
        for trigger in triggers[(triggers > self._counted_from) & (triggers < self._highest)].tolist():
            self._fewer_skipped += trigger not in self._filled
            self._filled[trigger] = None
            if len(self._filled) > self.size:
                del self._filled[next(iter(self._filled))]

    def note_earlier(self) -> None:
        """See that the run has triggers that are not known here."""
        self._has_earlier = True

    def take_fewer_skipped(self) -> int:
        """Return by how many fewer numbers were skipped than `skipped` said since this was asked last."""
        fewer, self._fewer_skipped = self._fewer_skipped, 0
        return fewer

    def skipped(self, triggers: Array) -> tuple[Array, int]:
        """Count the numbers right below these triggers, ascending, which close now, of which nothing has come.

        Returns int64, shape (n,), and the sum of those that are news. Where a newer one is in the place of the number
        below, that may have come, and so may numbers below the first of a run that was there earlier: 1, which is not
        counted.
        """
        below = triggers - 1
        there = self._trigger[below & self._mask]
        skipped = (there > below).astype(np.int64)
        unknown = there < below
        if not unknown.any():
            return skipped, 0
        numbers = np.sort(self._trigger)
        before = numbers[np.searchsorted(numbers, triggers[unknown]) - 1]
        skipped[unknown] = np.where(before == NO_TRIGGER, self._has_earlier, below[unknown] - before)
        counted = np.minimum(skipped, below - self._counted_from)[unknown & ~self._in_gap[triggers & self._mask]]
        return skipped, int(np.maximum(counted, 0).sum())

    def close(self, ledger: Array) -> None:
        """These triggers are closed, with these ledger rows."""
        places = ledger["trigger"] & self._mask
        self._closed = None
        self._trigger[places] = ledger["trigger"]
        self._slot[places] = CLOSED
        self._ledger[places] = ledger

    def recall(self, ledger: Array) -> None:
        """These triggers, ascending, were closed by an earlier process."""
        self.close(ledger)
        self.note_earlier()
        self._highest = self._counted_from = int(ledger["trigger"][-1])

    def rows(self) -> Array:
        """Return the ledger rows of all closed triggers, ascending: ledger dtype, shape (n,)."""
        return np.asarray(self._ledger[self._closed_places()])

    def _closed_places(self) -> Array:
        places = np.flatnonzero((self._slot == CLOSED) & (self._trigger != NO_TRIGGER))
        return np.asarray(places[np.argsort(self._trigger[places])])

    def forget(self, triggers: Array) -> None:
        """Know nothing of these closed triggers any more."""
        places = triggers & self._mask
        places = places[self._trigger[places] == triggers]
        self._closed = None
        self._trigger[places] = NO_TRIGGER
        self._counting[places] = False
        self.is_counting = bool(self._counting.any())

    def apart(self, block: Array) -> Array:
        """How far readings lie from their closed trigger in time, in ns: int64, shape (n,); FAR of one that is none."""
        triggers = np.ascontiguousarray(block["trigger"])
        apart = np.abs(self._ledger["time_ns"][triggers & self._mask] - block["time_ns"])
        return np.where(self.slots(triggers) == CLOSED, apart, FAR)

    def apart_from_all(self, block: Array) -> Array:
        """How far readings lie in time from their closed trigger, or from where it would be among those that are.

        It may have been lost, or forgotten: then its time is told by the next ones, and beyond these by how far apart
        triggers mostly are. In ns: float64, shape (n,), exact to a microsecond; infinite where nothing is closed.
        """
        numbers, times, period = self._line()
        if not len(numbers):
            return np.full(len(block), np.inf)
        triggers = block["trigger"]
        beyond = triggers - np.clip(triggers, numbers[0], numbers[-1])
        # Relative to the newest number: floats do not tell high ones apart.
        expected = np.interp(triggers - numbers[-1], numbers - numbers[-1], times) + beyond * period
        return np.asarray(np.abs(expected - block["time_ns"]))

    def _line(self) -> tuple[Array, Array, float]:
        """Numbers of the closed triggers, ascending, int64; their times in ns, float64; and how far these lie apart.

        Kept, since an instrument with a slow clock has it asked for with each block, of a run that seldom changes.
        """
        if self._closed is None:
            places = self._closed_places()
            numbers, times = self._trigger[places], self._ledger["time_ns"][places].astype(float)
            period = float(np.median(np.diff(times) / np.diff(numbers))) if len(places) > 1 else 0.0
            self._closed = numbers, times, period
        return self._closed

    def is_within(self, block: Array) -> Array:
        """Which readings of closed triggers have a time that their trigger's readings span: bool, shape (n,)."""
        places = block["trigger"] & self._mask
        times = block["time_ns"]
        return np.asarray((times >= self._ledger["first_ns"][places]) & (times <= self._ledger["last_ns"][places]))

    def is_wide(self, block: Array) -> Array:
        """Which readings are of closed triggers whose own lie a moment or more apart: bool, shape (n,).

        An instrument's clock is wrong, or it has readings of two runs: a time within says nothing of which it is.
        """
        return are_wide(self._ledger, block["trigger"] & self._mask)

    def is_missing(self, block: Array) -> Array:
        """Which readings of closed triggers the ledger calls missing, each once: bool, shape (n,)."""
        return missing_in(self._ledger, block["trigger"] & self._mask, block)

    def has(self, block: Array) -> Array:
        """Which readings are in closed triggers, by their time: bool, shape (n,).

        What an instrument's clock makes span a moment or more proves nothing.
        """
        closed: Array = self.slots(block["trigger"]) == CLOSED
        if not closed.any():
            return closed
        there = block[closed]
        at = there["trigger"] & self._mask
        closed[closed] = ~_lacks(self._ledger, at, there) & self.is_within(there) & ~self.is_wide(there)
        return closed

    def span(self, block: Array) -> None:
        """The readings of closed triggers span the times of these, too."""
        _span(self._ledger, block["trigger"] & self._mask, block["time_ns"])

    def merge(self, block: Array, utc_ns: int) -> Merged:
        """Merge readings of closed triggers, received now: what the ledger calls missing is late, the rest double."""
        places = block["trigger"] & self._mask
        late = note_late(self._ledger, places, block, utc_ns)
        at = places[late]
        rows, row_of = np.unique(at, return_inverse=True)
        if not late.all():
            self.is_counting = True
            self._counting[places[~late]] = True
        self._counting[rows] = False
        return Merged(
            late=block[late],
            late_of=row_of,
            revised=self._ledger[rows],
        )

    def counted(self, most: int) -> Array:
        """Ledger rows in which doubles were counted since they were given out: at most so many, each in its turn."""
        places = np.flatnonzero(self._counting)
        here = int(np.searchsorted(places, self._counted_upto))
        taken = np.roll(places, -here)[:most]
        self._counting[taken] = False
        self._counted_upto = int(taken[-1]) + 1 if len(taken) else 0
        self.is_counting = len(places) > len(taken)
        return np.asarray(self._ledger[taken])

    def would_forget(self, triggers: Array) -> bool:
        """Whether opening these would take the places of rows that `counted` still has to give out."""
        places = triggers & self._mask
        return self.is_counting and bool((self._counting[places] & (self._trigger[places] != triggers)).any())


def are_wide(ledger: Array, at: Array) -> Array:
    """Which ledger rows have readings a moment or more apart: bool, shape (n,); at: intp, shape (n,), these rows."""
    # As floats: wrong clocks lie further apart than int64 holds.
    span_ns = np.subtract(ledger["last_ns"][at], ledger["first_ns"][at], dtype=float)
    return np.asarray(span_ns >= ONE_MOMENT_NS)


def missing_in(ledger: Array, at: Array, block: Array) -> Array:
    """Which readings their ledger rows call missing, each once: bool, shape (n,); at: intp, the row of each."""
    missing = _lacks(ledger, at, block)
    return np.asarray(missing & first_of_each(at * (8 * ledger["missing"].shape[1]) + block["instrument"]))


def note_late(ledger: Array, at: Array, block: Array, utc_ns: int) -> Array:
    """Note readings that came after closing in their ledger rows; return which were missing, the rest are doubles.

    at: intp, shape (n,), the row of each. utc_ns: when they came.
    """
    late = missing_in(ledger, at, block)
    byte, bit = _bits(block[late])
    rows, times = at[late], block["time_ns"][late]
    np.bitwise_and.at(ledger["missing"], (rows, byte), ~bit)
    np.add.at(ledger["arrived"], rows, 1)
    np.add.at(ledger["late"], rows, 1)
    ledger["last_received_ns"][rows] = utc_ns
    _span(ledger, rows, times)
    np.add.at(ledger["duplicates"], at[~late], 1)
    return late


def _lacks(ledger: Array, at: Array, block: Array) -> Array:
    byte, bit = _bits(block)
    return np.asarray((ledger["missing"][at, byte] & bit) != 0)


def _span(ledger: Array, rows: Array, times: Array) -> None:
    np.minimum.at(ledger["first_ns"], rows, times)
    np.maximum.at(ledger["last_ns"], rows, times)


def _bits(block: Array) -> tuple[Array, Array]:
    return block["instrument"] >> 3, np.uint8(1) << (block["instrument"] & 7).astype(np.uint8)


def first_of_each(key: Array) -> Array:
    """Which elements are the first with their value: bool, shape (n,)."""
    first = np.zeros(len(key), bool)
    first[np.unique(key, return_index=True)[1]] = True
    return first

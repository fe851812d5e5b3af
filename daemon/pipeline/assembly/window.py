"""The window: what is known of the triggers around the newest, open or closed."""

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

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
        self._skipped = np.zeros(size, np.int64)
        self._behind_gaps: list[int] = []  # known triggers with skipped numbers before them, ascending
        self._highest: int | None = None

    def slots(self, triggers: Array) -> Array:
        """The slot of each trigger, CLOSED or UNKNOWN: int32, shape (n,)."""
        places = triggers & self._mask
        return np.where(self._trigger[places] == triggers, self._slot[places], np.int32(UNKNOWN))

    def occupied(self, triggers: Array) -> Array:
        """Slots of open triggers that lie a whole window before these and hold their places: int32, shape (k,)."""
        places = triggers & self._mask
        slots: Array = self._slot[places]
        open_before: Array = slots[(slots >= 0) & (self._trigger[places] != triggers)]
        return open_before

    def open(self, triggers: Array, slots: Array) -> None:
        """These triggers, ascending, are open now, in these slots."""
        places = triggers & self._mask
        self._trigger[places] = triggers
        self._slot[places] = slots
        ahead = 0 if self._highest is None else int(np.searchsorted(triggers, self._highest))
        for trigger in triggers[:ahead].tolist():
            self._fill(trigger)
        if ahead < len(triggers):
            self._skip(triggers[ahead:])

    def _skip(self, triggers: Array) -> None:
        """Count the numbers left out before these, which are higher than all before."""
        first = triggers[0] - 1 if self._highest is None else self._highest
        skipped = np.diff(triggers, prepend=first) - 1
        self._skipped[triggers & self._mask] = skipped
        self._behind_gaps += triggers[skipped > 0].tolist()
        self._highest = int(triggers[-1])
        if len(self._behind_gaps) > 2 * self.size:
            del self._behind_gaps[: -self.size]

    def _fill(self, trigger: int) -> None:
        """A number that was left out has come after all: what it leaves of its gap is divided."""
        at = bisect_left(self._behind_gaps, trigger)
        above = self._behind_gaps[at] if at < len(self._behind_gaps) else None
        place = trigger & self._mask
        self._skipped[place] = 0
        if above is None or self._trigger[above & self._mask] != above:
            return
        place_above = above & self._mask
        left = above - 1 - trigger
        before = int(self._skipped[place_above]) - left - 1
        if before < 0:
            return
        self._skipped[place_above] = left
        if not left:
            del self._behind_gaps[at]
        if before:
            self._skipped[place] = before
            insort(self._behind_gaps, trigger)
        if self._slot[place_above] == CLOSED:
            self._ledger["skipped"][place_above] = left
            self._counting[place_above] = self.is_counting = True

    def skipped(self, triggers: Array) -> Array:
        """How many numbers were left out right before these triggers: int64, shape (n,)."""
        return np.asarray(self._skipped[triggers & self._mask])

    def close(self, ledger: Array) -> None:
        """These triggers are closed, with these ledger rows."""
        places = ledger["trigger"] & self._mask
        self._trigger[places] = ledger["trigger"]
        self._slot[places] = CLOSED
        self._ledger[places] = ledger

    def recall(self, ledger: Array) -> None:
        """These triggers, ascending, were closed by an earlier process.

        It may have ended before it gave out rows in which only counts had changed.
        """
        triggers = ledger["trigger"]
        skipped = np.diff(triggers, prepend=triggers[0] - 1 - ledger["skipped"][0]) - 1
        changed = ledger["skipped"] != skipped
        ledger = ledger.copy()
        ledger["skipped"] = skipped
        self.close(ledger)
        self._skipped[triggers & self._mask] = skipped
        self._counting[triggers[changed] & self._mask] = True
        self.is_counting = bool(changed.any())
        self._behind_gaps = triggers[skipped > 0].tolist()
        self._highest = int(triggers[-1])

    def apart(self, block: Array) -> Array:
        """How far readings lie from their closed trigger in time, in ns: int64, shape (n,); FAR of one that is none."""
        triggers = np.ascontiguousarray(block["trigger"])
        apart = np.abs(self._ledger["time_ns"][triggers & self._mask] - block["time_ns"])
        return np.where(self.slots(triggers) == CLOSED, apart, FAR)

    def is_within(self, block: Array) -> Array:
        """Which readings of closed triggers have a time that their trigger's readings span: bool, shape (n,)."""
        places = block["trigger"] & self._mask
        times = block["time_ns"]
        return np.asarray((times >= self._ledger["first_ns"][places]) & (times <= self._ledger["last_ns"][places]))

    def is_missing(self, block: Array) -> Array:
        """Which readings of closed triggers the ledger calls missing, each once: bool, shape (n,)."""
        return missing_in(self._ledger, block["trigger"] & self._mask, block)

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


def missing_in(ledger: Array, at: Array, block: Array) -> Array:
    """Which readings their ledger rows call missing, each once: bool, shape (n,); at: intp, the row of each."""
    byte, bit = _bits(block)
    missing = (ledger["missing"][at, byte] & bit) != 0
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
    np.minimum.at(ledger["first_ns"], rows, times)
    np.maximum.at(ledger["last_ns"], rows, times)
    np.add.at(ledger["duplicates"], at[~late], 1)
    return late


def _bits(block: Array) -> tuple[Array, Array]:
    return block["instrument"] >> 3, np.uint8(1) << (block["instrument"] & 7).astype(np.uint8)


def first_of_each(key: Array) -> Array:
    """Which elements are the first with their value: bool, shape (n,)."""
    first = np.zeros(len(key), bool)
    first[np.unique(key, return_index=True)[1]] = True
    return first

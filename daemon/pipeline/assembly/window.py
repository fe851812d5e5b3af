"""The window: what is known of the triggers around the newest, open or closed."""

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
    revised: ledger dtype (r,), these rows as they are now. doubles: record dtype (d,), those that were there already;
    rows in which only doubles were counted are given out by `Window.counted`.
    """

    late: Array
    late_of: Array
    revised: Array
    doubles: Array


class Window:
    """A ring of `size` trigger numbers (a power of two): each with its slot while open, its ledger row once closed."""

    def __init__(self, size: int, instruments: int, run: int) -> None:
        self.run = run
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
        """These triggers are open now, in these slots."""
        places = triggers & self._mask
        self._trigger[places] = triggers
        self._slot[places] = slots

    def close(self, ledger: Array) -> None:
        """These triggers are closed, with these ledger rows."""
        places = ledger["trigger"] & self._mask
        self._trigger[places] = ledger["trigger"]
        self._slot[places] = CLOSED
        self._ledger[places] = ledger

    def apart(self, block: Array) -> Array:
        """How far readings lie from their closed trigger in time, in ns: int64, shape (n,); FAR of one that is none."""
        triggers = np.ascontiguousarray(block["trigger"])
        apart = np.abs(self._ledger["time_ns"][triggers & self._mask] - block["time_ns"])
        return np.where(self.slots(triggers) == CLOSED, apart, FAR)

    def merge(self, block: Array, utc_ns: int) -> Merged:
        """Merge readings of closed triggers, received now: what the ledger calls missing is late, the rest double."""
        places = block["trigger"] & self._mask
        byte, bit = block["instrument"] >> 3, np.uint8(1) << (block["instrument"] & 7).astype(np.uint8)
        late = (self._ledger["missing"][places, byte] & bit) != 0
        late &= first_of_each(places * self._instruments + block["instrument"])
        at, times = places[late], block["time_ns"][late]
        np.bitwise_and.at(self._ledger["missing"], (at, byte[late]), ~bit[late])
        np.add.at(self._ledger["arrived"], at, 1)
        np.add.at(self._ledger["late"], at, 1)
        self._ledger["last_received_ns"][at] = utc_ns
        np.minimum.at(self._ledger["first_ns"], at, times)
        np.maximum.at(self._ledger["last_ns"], at, times)
        np.add.at(self._ledger["duplicates"], places[~late], 1)
        rows, row_of = np.unique(at, return_inverse=True)
        if not late.all():
            self.is_counting = True
            self._counting[places[~late]] = True
        self._counting[rows] = False
        return Merged(
            late=block[late],
            late_of=row_of,
            revised=self._ledger[rows],
            doubles=block[~late],
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


def first_of_each(key: Array) -> Array:
    """Which elements are the first with their value: bool, shape (n,)."""
    first = np.zeros(len(key), bool)
    first[np.unique(key, return_index=True)[1]] = True
    return first

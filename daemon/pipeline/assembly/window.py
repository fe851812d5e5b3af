"""The window: what is known of the triggers around the newest, open or closed."""

from bisect import bisect_right, insort
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
        self._skipped = np.zeros(size, np.int64)
        self._is_newly = np.zeros(size, bool)  # whether these numbers were found skipped in this process
        self._behind_gaps: list[int] = []  # known triggers with skipped numbers before them, ascending
        self._highest: int | None = None
        self._lowest: int | None = None  # the first of the run, where it is known
        self._more_skipped = 0
        self._closed: tuple[Array, Array, float] | None = None  # what `_line` says, until that changes
        self._placed: dict[int, tuple[int, bool]] = {}  # numbers left out before them, and if that is newly so

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

        bool, shape (n,). To open one would be to forget the newer one, and the gap before it.
        """
        return np.asarray(self._trigger[triggers & self._mask] > triggers)

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
        ahead = 0 if self._highest is None else int(np.searchsorted(triggers, self._highest, "right"))
        for trigger in triggers[:ahead].tolist():
            self._fill(trigger)
        if ahead < len(triggers):
            self._skip(triggers[ahead:])

    def _skip(self, triggers: Array) -> None:
        """Count the numbers left out before these, which are higher than all before."""
        first = triggers[0] - 1 if self._highest is None else self._highest
        if self._highest is None:
            self._lowest = int(triggers[0])
        places = triggers & self._mask
        self._is_newly[places] = True
        if triggers[-1] - first == len(triggers):
            self._skipped[places] = 0  # no number is left out, as almost always
        else:
            skipped = np.diff(triggers, prepend=first) - 1
            self._skipped[places] = skipped
            self._behind_gaps += triggers[skipped > 0].tolist()
        self._highest = int(triggers[-1])
        if len(self._behind_gaps) > 2 * self.size:
            del self._behind_gaps[: -self.size]

    def _fill(self, trigger: int) -> None:
        """A number that was left out has come after all, and is open."""
        before, is_newly = self._divide(trigger) or (0, True)
        place = trigger & self._mask
        self._skipped[place], self._is_newly[place] = before, is_newly
        if before:
            insort(self._behind_gaps, trigger)

    def place(self, trigger: int) -> None:
        """A number too old to be opened here comes to be a trigger elsewhere, if it is none yet.

        `take_placed` says how many numbers were left out before it.
        """
        if self._highest is None or trigger > self._highest:
            before, is_newly = 0 if self._highest is None else trigger - self._highest - 1, True
            self._lowest = trigger if self._highest is None else self._lowest
            self._highest = trigger
        else:
            divided = self._divide(trigger)
            if divided is None:
                return
            before, is_newly = divided
        if before:
            insort(self._behind_gaps, trigger)
        self._more_skipped += before * is_newly
        self._placed[trigger] = before, is_newly
        if len(self._placed) > self.size:
            del self._placed[next(iter(self._placed))]

    def take_placed(self, trigger: int) -> int | None:
        """How many numbers were left out right before one that was placed, or was forgotten with that not given out.

        None where nothing is known of its gap.
        """
        before, _ = self._placed.pop(trigger, (None, False))
        return before

    def _gap_before(self, trigger: int) -> tuple[int, bool] | None:
        """How many numbers were left out before a trigger, and whether that is news of this process, if it is known."""
        place = trigger & self._mask
        if self._trigger[place] == trigger:
            return int(self._skipped[place]), bool(self._is_newly[place])
        return self._placed.get(trigger)

    def _divide(self, trigger: int) -> tuple[int, bool] | None:
        """Take a number out of its gap, and what lies below it in there, too.

        Returns how many that are, and whether they were found skipped in this process; None where no gap is known that
        it lies in.
        """
        at = bisect_right(self._behind_gaps, trigger)
        above = self._behind_gaps[at] if at < len(self._behind_gaps) else None
        gap = None if above is None else self._gap_before(above)
        if above is None or gap is None or trigger < above - gap[0]:
            return self._begin_lower(trigger)
        left = above - 1 - trigger
        self._set_skipped(above, left)
        if not left:
            del self._behind_gaps[at]
        return gap[0] - left - 1, gap[1]

    def _begin_lower(self, trigger: int) -> tuple[int, bool] | None:
        """Let the run begin with this number, if it is lower than its first: what lies between was left out."""
        above = self._lowest
        if above is None or trigger >= above:
            return None
        self._lowest = trigger
        gap = self._gap_before(above)
        if gap is None:
            return None
        if above - 1 > trigger and not gap[0]:
            insort(self._behind_gaps, above)
        self._set_skipped(above, above - 1 - trigger)
        return 0, gap[1]

    def _set_skipped(self, trigger: int, skipped: int) -> None:
        """So many numbers were left out before a known trigger, as it turns out."""
        if trigger in self._placed:
            before, is_newly = self._placed[trigger]
            self._more_skipped += (skipped - before) * is_newly
            self._placed[trigger] = skipped, is_newly
            return
        place = trigger & self._mask
        if self._slot[place] == CLOSED:
            self._more_skipped += (skipped - int(self._skipped[place])) * bool(self._is_newly[place])
            if self._ledger["skipped"][place] != skipped:
                self._ledger["skipped"][place] = skipped
                self._counting[place] = self.is_counting = True
        self._skipped[place] = skipped

    def skipped(self, triggers: Array) -> Array:
        """How many numbers were left out right before these triggers: int64, shape (n,)."""
        return np.asarray(self._skipped[triggers & self._mask])

    def newly_skipped(self, triggers: Array) -> int:
        """How many numbers before these triggers, which close now, were found skipped in this process."""
        places = triggers & self._mask
        return int(self._skipped[places][self._is_newly[places]].sum())

    def take_more_skipped(self) -> int:
        """By how many more numbers were skipped than `newly_skipped` said since this was asked last; mostly less."""
        more, self._more_skipped = self._more_skipped, 0
        return more

    def close(self, ledger: Array) -> None:
        """These triggers are closed, with these ledger rows."""
        places = ledger["trigger"] & self._mask
        self._closed = None
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
        self._lowest = int(triggers[0]) if len(triggers) < self.size else None

    def rows(self) -> Array:
        """Return the ledger rows of all closed triggers, ascending: ledger dtype, shape (n,)."""
        return np.asarray(self._ledger[self._closed_places()])

    def _closed_places(self) -> Array:
        places = np.flatnonzero((self._slot == CLOSED) & (self._trigger != NO_TRIGGER))
        return np.asarray(places[np.argsort(self._trigger[places])])

    def forget(self, triggers: Array) -> None:
        """Know nothing of these closed triggers any more, but for what `take_placed` tells of those to be given out."""
        places = triggers & self._mask
        places = places[self._trigger[places] == triggers]
        for place in places[self._counting[places]].tolist():
            self._placed[int(self._trigger[place])] = int(self._skipped[place]), bool(self._is_newly[place])
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

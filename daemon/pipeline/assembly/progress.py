"""Progress: how far a run, and each instrument in it, has come."""

import numpy as np

from schemas.ledger import unpack_missing
from schemas.readings import Array

ONE_MOMENT_NS = 1_000_000_000
"""Timestamps of one trigger lie closer together than this, unless an instrument's clock is wrong."""

NEVER = np.iinfo(np.int64).min

MOST_TRIGGER = 1 << 62
"""Trigger numbers lie in 0 .. MOST_TRIGGER - 1; what is beyond is garbage, and leaves room to calculate."""


def are_most(instruments: Array, others: Array) -> bool:
    """Return whether instruments are more than half of them and others together.

    instruments: numbers, shape (n,), or bool, shape (instruments,), as others.
    """
    every = others.copy()
    every[instruments] = True
    count = np.count_nonzero(instruments) if instruments.dtype == bool else len(np.unique(instruments))
    return 2 * int(count) > int(np.count_nonzero(every))


class Progress:
    """The front of a run (the median of the instruments' newest triggers), and what does not fit it.

    The median, so that a single instrument with a wrong trigger number does not move it.
    """

    def __init__(self, instruments: int, half_window: int) -> None:
        self._half = half_window
        self._trigger = np.full(instruments, NEVER, np.int64)
        self._time_ns = np.full(instruments, NEVER, np.int64)
        self._heard_ns = np.full(instruments, NEVER, np.int64)
        self._newest: int = NEVER
        self._front: int | None = None
        self._low = 0
        self.left = 0  # the database has what is below, or may have
        self.closed = 0  # triggers, in this process
        self.is_of_most = False  # whether most instruments of the group have been about the front
        self.is_led_by_few = False  # whether fewer have moved it since: the others may still be behind it
        self._moved_ns = NEVER

    @property
    def front(self) -> int | None:
        """The median of the instruments' newest triggers; None before the first."""
        return self._front

    @front.setter
    def front(self, trigger: int) -> None:
        self._front = trigger
        # Where a crate that catches up pulls the median down, what was out of reach stays so: it went elsewhere.
        self._low = max(self._low, trigger - self._half)

    @property
    def _is_led_by_most(self) -> bool:
        return self.is_of_most and not self.is_led_by_few

    def move(self, trigger: int, time_ns: int, *, instruments: int) -> None:
        """Go on with this trigger, at which so many instruments were from this time on; of it none is closed yet."""
        if self._is_led_by_most:
            self.left = max(self.left, self._low)
        self.is_led_by_few = 2 * instruments <= len(self._trigger)
        self.front, self._moved_ns = trigger, time_ns

    def move_back(self, trigger: int, time_ns: int, *, instruments: int) -> None:
        """Go on with this trigger, whatever front few instruments had made; see `move`."""
        self._low = self.left
        self.move(trigger, time_ns, instruments=instruments)

    def leave(self, trigger: int) -> None:
        """Let the window begin above this trigger at least, for good."""
        self.left = max(self.left, trigger + 1)
        self._low = max(self._low, self.left)

    @property
    def newest(self) -> int | None:
        """The highest trigger number closed."""
        return self._newest if self._newest != NEVER else None

    def resume(self, history: Array) -> None:
        """Go on from ledger rows, ascending, of an earlier process.

        One instrument with a wrong number, or a wrong clock, must not decide where all are: the newest trigger counts
        that had about as many readings as the others. How far each instrument was the rows tell that do not lack it.
        """
        arrived = history["arrived"]
        last = int(np.flatnonzero(2 * arrived >= arrived.max())[-1])
        self._newest = self.front = int(history["trigger"][last])
        spread = history["last_ns"] - history["time_ns"]
        is_together = (spread >= 0) & (spread < ONE_MOMENT_NS)
        times = np.where(is_together, history["last_ns"], history["time_ns"])
        present = ~unpack_missing(history["missing"][last::-1], len(self._trigger))
        seen = present.any(axis=0)
        rows = last - present.argmax(axis=0)[seen]
        self._trigger[seen] = history["trigger"][rows]
        self._time_ns[seen] = times[rows]
        self._note_most()

    def is_far(self, triggers: Array) -> Array:
        """Which trigger numbers lie outside the window: bool, shape (n,)."""
        if self.front is None:
            return np.ones(len(triggers), bool)
        return np.asarray(self.is_older(triggers) | self.is_ahead(triggers))

    def is_ahead(self, triggers: Array) -> Array:
        """Which trigger numbers lie beyond the window: bool, shape (n,)."""
        assert self.front is not None
        return np.asarray(triggers >= min(MOST_TRIGGER, self.front + self._half))

    def is_older(self, triggers: Array) -> Array:
        """Which trigger numbers lie before the window, or once did: bool, shape (n,)."""
        return np.asarray(triggers < self._low)

    def is_gone(self, triggers: Array) -> Array:
        """Return which trigger numbers lie before the window for good: bool, shape (n,).

        Few instruments may have moved the window, and then nothing below it was forgotten but what is `left`.
        """
        return self.is_older(triggers) if self._is_led_by_most else np.asarray(triggers < self.left)

    def fell_back(self, block: Array, utc_ns: int) -> Array:
        """Which readings show that the numbers began again, unless others contradict them: bool, shape (n,).

        They have no higher number than the front, were taken after the last of their instrument, and have no higher
        number than that or were taken after all that made the front: what lies behind it and is older was on its way
        for long. utc_ns: when they came. A clock that is ahead of that, and of half of the others, says nothing; ahead
        of that alone are all of them where the node's clock is behind, or the readings came before what made the front.
        """
        times = np.append(self._time_ns[self._are_active()], self._moved_ns)
        now_ns = max(utc_ns, int(np.partition(times, len(times) // 2)[len(times) // 2]))
        front_ns = np.max(times[times < now_ns + ONE_MOMENT_NS], initial=NEVER)
        later = block["time_ns"] > self._time_ns[block["instrument"]]
        after = (block["trigger"] <= self.front) & (block["time_ns"] > front_ns)
        return np.asarray(self._went_back(block) | (later & after))

    def _went_back(self, block: Array) -> Array:
        """Which readings have no higher number than the last of their instrument, and were taken later: bool, (n,)."""
        triggers, instruments = block["trigger"], block["instrument"]
        is_later = block["time_ns"] > self._time_ns[instruments]
        return np.asarray(is_later & (triggers <= self._trigger[instruments]))

    def is_behind(self, block: Array, started_ns: int) -> Array:
        """Which readings belong to this run and not to one that began then: bool, shape (n,).

        A slow clock proves nothing of an instrument whose numbers fell back.
        """
        is_earlier = (block["trigger"] <= self.front) & (block["time_ns"] < started_ns)
        return np.asarray(is_earlier & ~self._went_back(block))

    def is_stray(self, block: Array) -> Array:
        """Which readings lie outside the window, or went back while their instrument's clock went on: bool, (n,)."""
        if self.front is None:
            return np.ones(len(block), bool)
        return np.asarray(self._went_back(block) | self.is_far(block["trigger"]))

    def advance(self, triggers: Array, times: Array, present: Array, opened_ns: Array) -> None:
        """Follow closed triggers, ascending: int64 (t,), times int64 (t, instruments), present bool of that shape.

        opened_ns: monotonic times at which they were opened, int64 (t,).
        """
        if present[-1].all():
            seen, rows = present[-1], np.full(len(self._trigger), len(triggers) - 1)
        else:
            seen, rows = present.any(axis=0), len(triggers) - 1 - np.argmax(present[::-1], axis=0)
        newest = triggers[rows]
        ahead = seen & (newest > self._trigger)
        self._heard_ns[seen] = np.maximum(self._heard_ns, opened_ns[rows])[seen]
        self._trigger[ahead] = newest[ahead]
        self._time_ns[ahead] = times[rows[ahead], np.flatnonzero(ahead)]
        self._newest = max(self._newest, int(triggers[-1]))
        self.closed += len(triggers)
        self._follow()

    def advance_late(self, block: Array, monotonic_ns: int) -> None:
        """Follow readings that came late, now, for closed triggers."""
        self._heard_ns[block["instrument"]] = monotonic_ns
        ahead = block[block["trigger"] > self._trigger[block["instrument"]]]
        ahead = ahead[np.argsort(ahead["trigger"])]
        self._trigger[ahead["instrument"]], self._time_ns[ahead["instrument"]] = ahead["trigger"], ahead["time_ns"]
        if len(ahead):
            self._follow()

    def _follow(self) -> None:
        active = self._trigger[self._are_active()]
        if len(active):
            self.front = int(np.partition(active, len(active) // 2)[len(active) // 2])
        if not self._is_led_by_most:
            self._note_most()

    def _note_most(self) -> None:
        if 2 * np.count_nonzero(self._are_active()) > len(self._trigger):
            self.is_of_most, self.is_led_by_few = True, False
            self._low = max(self.left, (self._front or 0) - self._half)  # what few made of the window ends with them

    def _are_active(self) -> Array:
        """Which instruments are about where the front is: bool, shape (instruments,).

        Not where the newest trigger is: one instrument that runs ahead would leave the others behind, and be the front.
        """
        least = self._trigger.max() if self._front is None else self._front
        return np.asarray(self._trigger >= least - self._half)

    def active(self) -> Array:
        """Return which instruments took part lately, bool, (instruments,); all until most were about the front."""
        return self._are_active() if self.is_of_most else np.ones(len(self._trigger), bool)

    def heard_after(self, other: "Progress", since_ns: int) -> Array:
        """Return which instruments were heard here after a monotonic time, and later than there: bool, shape (n,)."""
        return np.asarray(self._heard_ns > np.maximum(other._heard_ns, since_ns))

    def heard_since(self, monotonic_ns: int) -> Array:
        """Which instruments have a reading in a closed trigger that was opened since: bool, shape (instruments,)."""
        return np.asarray(self._heard_ns >= monotonic_ns)

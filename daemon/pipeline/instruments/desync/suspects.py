"""Suspects: instruments of whose last readings some are out of step, and what has been decided of them."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from daemon.pipeline.instruments.desync.verdicts import VERDICT, Kind
from schemas.readings import Array

ENOUGH_NS = 400_000_000
"""An instrument is out of step when its wrong readings outweigh the right ones by so much. A reading weighs as long as
its trigger lasts: it is 4 readings at 10 triggers a second, 40 at 100."""

WEIGHT_MOST_NS = 134_000_000
"""However slowly triggers come, no fewer than three readings decide."""

WORTH = np.zeros((max(Kind) + 1, 2))
WORTH[Kind.IN_STEP] = -1 / 20, -1 / 8
WORTH[Kind.VAGUE] = -1, -1 / 8
WORTH[Kind.SLIPPED] = 1, 0
WORTH[Kind.CLOCK_OFF] = 0, 1
"""Weights of a reading of a kind against the numbers of its instrument, and against its clock.

One number in twenty may be wrong for ever, and one timestamp in eight: where a sender gives none, the time of
receipt stands in, and a network holds readings up now and then. A clock that is unsteady within the limit is near to
another trigger by chance, and more often near to none."""

WELL = 3
"""It is in step again when that lasts so many times longer than ever while it was out of step."""

LAST = 12
"""Wrong readings that say in which way an instrument is out of step."""

STEADY = 8
"""A clock is off by the same amount when it varies by no more than this part of it."""


@dataclass(slots=True)
class Suspect:
    """One instrument. since: the number that its first wrong reading carried."""

    since: int
    is_out: bool = False
    is_over: bool = False
    _score: Array = field(default_factory=lambda: np.zeros(2))
    _well_ns: float = 0.0
    _well_most_ns: float = 0.0
    _time_ns: int = -(2**61)
    _last: deque[Array] = field(default_factory=lambda: deque(maxlen=LAST))

    def take(self, readings: Array) -> None:
        """Take readings of the instrument in the order of their times: VERDICT (n,)."""
        wrong = readings["kind"] >= Kind.SLIPPED
        weight_ns = self._weights_ns(readings)
        self._last.extend(readings[wrong][-LAST:])
        if not self.is_out:
            self._score_up(readings["kind"], weight_ns)
        self._note_well(np.where(readings["kind"] == Kind.IN_STEP, weight_ns, 0), wrong)
        if self.is_out:
            self.is_over = self._well_ns >= ENOUGH_NS + WELL * self._well_most_ns

    def begin_run(self) -> None:
        """Numbers start again: what was only suspected is forgotten; what was decided holds until readings differ."""
        self.is_over |= not self.is_out

    def way(self, limit_ns: int) -> tuple[Kind, int, int]:
        """Return how it is out of step, by its last wrong readings: kind, triggers, and ns off."""
        last = np.array(self._last, VERDICT)
        kind, triggers, off_ns = Kind.IRREGULAR, last["triggers"], last["off_ns"]
        if np.ptp(last["trigger"]) == 0:
            kind = Kind.STUCK
        elif np.ptp(triggers) == 0 and (last["kind"] == Kind.SLIPPED).all():
            kind = Kind.SLIPPED
        elif np.ptp(off_ns) <= max(limit_ns, abs(int(off_ns[-1])) // STEADY) and Kind.CLOCK_OFF in last["kind"]:
            return Kind.CLOCK_OFF, 0, int(off_ns[-1])
        return kind, int(triggers[-1]), int(off_ns[-1])

    def _weights_ns(self, readings: Array) -> Array:
        weights = np.minimum(readings["gap_ns"], WEIGHT_MOST_NS)
        # Those that were held up and come together with the time of receipt weigh as one.
        together = (readings["off_ns"] > 0) & ~readings["beyond"]
        since_last = np.diff(readings["time_ns"], prepend=self._time_ns)
        self._time_ns = int(readings["time_ns"][-1])
        return np.asarray(np.where(together, np.minimum(weights, since_last), weights))

    def _score_up(self, kinds: Array, weight_ns: Array) -> None:
        """Add what readings are worth; neither score falls below 0, and it is over when both are there."""
        gains = WORTH[kinds] * weight_ns[:, None]
        path = self._score + np.cumsum(gains, axis=0)
        scores = path - np.minimum(np.minimum.accumulate(path, axis=0), 0)
        self._score = scores[-1]
        self.is_out = bool((scores >= ENOUGH_NS).any())
        self.is_over = not self.is_out and not self._score.any()

    def _note_well(self, well_ns: Array, wrong: Array) -> None:
        total = self._well_ns + np.cumsum(well_ns)
        if wrong.any():
            at = np.flatnonzero(wrong)
            stretches = np.diff(total[at], prepend=0.0)
            self._well_most_ns = max(self._well_most_ns, float(stretches.max()))
            self._well_ns = float(total[-1] - total[at[-1]])
        else:
            self._well_ns = float(total[-1])


class Suspects:
    """The suspects of a group, by instrument."""

    def __init__(self) -> None:
        self.by_instrument: dict[int, Suspect] = {}

    def begin_run(self) -> None:
        """Numbers start again."""
        for suspect in self.by_instrument.values():
            suspect.begin_run()
        self._release()

    def take(self, readings: Array) -> None:
        """Take what readings say, VERDICT (n,), in any order."""
        telling = readings["kind"] >= Kind.SLIPPED
        suspected = np.isin(readings["instrument"], [*self.by_instrument, *readings["instrument"][telling]])
        readings = readings[suspected & (readings["kind"] != Kind.UNKNOWN)]
        if not len(readings):
            return
        readings = readings[np.lexsort([readings[name] for name in ("trigger", "time_ns", "instrument")])]
        for mine in np.split(readings, np.flatnonzero(np.diff(readings["instrument"])) + 1):
            i, first = int(mine["instrument"][0]), 0
            if i not in self.by_instrument:
                first = int(np.argmax(mine["kind"] >= Kind.SLIPPED))
                self.by_instrument[i] = Suspect(int(mine["trigger"][first]))
            self.by_instrument[i].take(mine[first:])
        self._release()

    def _release(self) -> None:
        self.by_instrument = {i: suspect for i, suspect in self.by_instrument.items() if not suspect.is_over}

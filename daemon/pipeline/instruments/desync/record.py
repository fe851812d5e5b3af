"""The record of each instrument: what its last readings showed, and what has been decided of it."""

import numpy as np

from daemon.pipeline.instruments.desync.verdicts import Kind, Verdicts
from schemas.readings import Array

LEAST_SPAN_NS = {
    Kind.IN_STEP: 195_000_000,
    Kind.SLIPPED: 195_000_000,
    Kind.STUCK: 195_000_000,
    Kind.CLOCK_OFF: 295_000_000,
}
"""Two readings or more that say the same decide when they lie so far apart: two at 5 triggers a second and below, three
at 10, twenty at 100. A clock that is off needs more than a slip, since a sender that was held up for a moment
looks like one where the daemon gives the time of receipt."""

MOST_AT_ONCE = 64
"""Readings of one instrument judged in one look; the oldest beyond these say nothing new."""

STEADY = 8
"""A clock is off by the same amount when it varies by no more than this part of it."""


class Record:
    """What was decided of each instrument. Arrays of shape (instruments,): decided (Kind), triggers, off_ns, since."""

    def __init__(self, instruments: int, limit_ns: int) -> None:
        self._limit_ns = limit_ns
        self._kind = np.full(instruments, Kind.IN_STEP, np.int8)
        self._triggers = np.zeros(instruments, np.int64)
        self._number = np.full(instruments, -1, np.int64)
        self._off_ns = np.zeros(instruments, np.int64)
        self._run = np.zeros(instruments, np.int64)
        self._since = np.zeros(instruments, np.int64)
        self._since_ns = np.zeros(instruments, np.int64)
        self.decided = np.full(instruments, Kind.IN_STEP, np.int8)
        self.triggers = np.zeros(instruments, np.int64)
        self.off_ns = np.zeros(instruments, np.int64)
        self.since = np.zeros(instruments, np.int64)

    @property
    def watched(self) -> Array:
        """Instruments of which every reading counts, since something is or was wrong with them: bool."""
        return np.asarray((self._kind != Kind.IN_STEP) | (self.decided != Kind.IN_STEP))

    def begin_run(self) -> None:
        """Numbers start again: what was only suspected is forgotten; what was decided holds until readings differ."""
        self._kind[:] = Kind.IN_STEP
        self._run[:] = 0

    def take(self, evidence: Array, verdicts: Verdicts) -> None:
        """Take what readings showed, EVIDENCE (n,) with its verdicts, in any order."""
        telling = np.flatnonzero(verdicts.kind != Kind.UNKNOWN)
        order = telling[np.lexsort((evidence["time_ns"][telling], evidence["instrument"][telling]))]
        instrument = evidence["instrument"][order]
        if not len(order):
            return
        ends = np.flatnonzero(np.diff(instrument, append=-1)) + 1
        behind = np.repeat(ends, np.diff(ends, prepend=0)) - 1 - np.arange(len(order))
        for rank in range(min(MOST_AT_ONCE - 1, int(behind.max())), -1, -1):
            mine = order[behind == rank]
            self._step(evidence[mine], verdicts.kind[mine], verdicts.triggers[mine], verdicts.off_ns[mine])

    def _step(self, evidence: Array, kind: Array, triggers: Array, off_ns: Array) -> None:
        """One reading an instrument."""
        i = evidence["instrument"]
        kind = np.where((kind == Kind.SLIPPED) & (evidence["trigger"] == self._number[i]), Kind.STUCK, kind)
        self._number[i] = evidence["trigger"]
        goes_on = (kind == self._kind[i]) & (self._run[i] > 0)
        # Readings that were held up catch up again.
        slips = (np.sign(triggers) == np.sign(self._triggers[i])) & (np.abs(triggers) >= np.abs(self._triggers[i]))
        goes_on &= (kind != Kind.SLIPPED) | slips
        steady = np.abs(off_ns - self._off_ns[i]) <= np.maximum(self._limit_ns, np.abs(off_ns) // STEADY)
        goes_on &= (kind != Kind.CLOCK_OFF) | steady
        self._run[i] = np.where(goes_on, self._run[i] + 1, 1)
        self._since[i] = np.where(goes_on, self._since[i], evidence["trigger"])
        self._since_ns[i] = np.where(goes_on, self._since_ns[i], evidence["time_ns"])
        self._kind[i], self._triggers[i], self._off_ns[i] = kind, triggers, off_ns
        self._decide(i, kind, np.abs(evidence["time_ns"] - self._since_ns[i]))

    def _decide(self, instrument: Array, kind: Array, span_ns: Array) -> None:
        least = np.select([kind == which for which in LEAST_SPAN_NS], list(LEAST_SPAN_NS.values()), 0)
        i = instrument[(self._run[instrument] >= 2) & (span_ns >= least)]
        # As long as it is out of step in one way, it is so since what was reported first.
        self.since[i] = np.where(self.decided[i] == self._kind[i], self.since[i], self._since[i])
        self.decided[i], self.triggers[i], self.off_ns[i] = self._kind[i], self._triggers[i], self._off_ns[i]

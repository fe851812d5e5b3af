"""The watch over instruments: how each did lately, for the grid on the page."""

import numpy as np

from schemas.batch import ClosedTriggers

_SECONDS = 5
FRACTION = 0.1
"""An instrument that is absent from, or late for, more than this fraction of the last triggers is shown so."""


class Watch:
    """Absences and latenesses of the last seconds, and when each instrument was last seen."""

    def __init__(self, instruments: int, stale_ns: int) -> None:
        self._stale_ns = stale_ns
        self._seen_ns = np.zeros(instruments, np.int64)
        self._newest_ns = 0
        self._second = np.full(_SECONDS, -1, np.int64)
        self._closed = np.zeros(_SECONDS, np.int64)
        self._missing = np.zeros((_SECONDS, instruments), np.int64)
        self._late = np.zeros((_SECONDS, instruments), np.int64)

    def note(self, piece: ClosedTriggers, monotonic_ns: int) -> None:
        """Take note of closed triggers and late readings."""
        row = self._row(monotonic_ns)
        if piece.triggers:
            self._closed[row] += piece.triggers
            self._missing[row] += piece.triggers - np.count_nonzero(piece.present, axis=0)
            self._seen_ns[piece.present.any(axis=0)] = monotonic_ns
            self._newest_ns = monotonic_ns
        if len(piece.late):
            instruments = piece.late["instrument"]
            np.add.at(self._late[row], instruments, 1)
            np.subtract.at(self._missing[row], instruments, 1)
            self._seen_ns[instruments] = monotonic_ns

    def states(self, monotonic_ns: int) -> str:
        """One letter an instrument, in order (see `schemas.status.STATE_LETTERS`)."""
        recent = self._second > monotonic_ns // 1_000_000_000 - _SECONDS
        closed = max(1, int(self._closed[recent].sum()))
        letters = np.full(len(self._seen_ns), "o")
        letters[self._late[recent].sum(axis=0) > FRACTION * closed] = "l"
        letters[self._missing[recent].sum(axis=0) > FRACTION * closed] = "m"
        # Silent is said of an instrument while others go on: a machine at rest is not a hundred broken instruments.
        letters[self._newest_ns - self._seen_ns > self._stale_ns] = "s"
        letters[self._seen_ns == 0] = "n"
        return "".join(letters.tolist())

    def missing_a_trigger(self, monotonic_ns: int) -> float:
        """Mean number of instruments missing from a trigger of the last seconds."""
        recent = self._second > monotonic_ns // 1_000_000_000 - _SECONDS
        closed = int(self._closed[recent].sum())
        return max(0.0, float(self._missing[recent].sum()) / closed) if closed else 0.0

    def _row(self, monotonic_ns: int) -> int:
        second = monotonic_ns // 1_000_000_000
        row = int(second % _SECONDS)
        if self._second[row] != second:
            self._second[row] = second
            self._closed[row] = 0
            self._missing[row] = 0
            self._late[row] = 0
        return row

"""The watch over instruments: how each did lately, for the grid on the page."""

from collections.abc import Sequence

import numpy as np

from daemon.core.words import listing
from schemas.batch import ClosedBlock
from schemas.readings import Array, InstrumentGroup
from schemas.states import Severity

_SECONDS = 5
FRACTION = 0.1
"""An instrument that is absent from, or late for, more than this fraction of the last triggers is shown so."""


class Watch:
    """Absences and latenesses of the last seconds, and when each instrument was last seen."""

    def __init__(self, instruments: int, stale_ns: int) -> None:
        self._stale_ns = stale_ns
        self._seen_ns = np.zeros(instruments, np.int64)
        self._newest_ns = 0
        self._was_silent = np.zeros(instruments, bool)
        self._second = np.full(_SECONDS, -1, np.int64)
        self._closed = np.zeros(_SECONDS, np.int64)
        self._missing = np.zeros((_SECONDS, instruments), np.int64)
        self._late = np.zeros((_SECONDS, instruments), np.int64)
        self._ahead_ns = np.full(_SECONDS, np.nan)  # that of the trigger nearest to the node's clock
        self.late = np.zeros(instruments, np.int64)
        """Readings of each instrument that came after their trigger had closed, since the start."""

    def change_stale(self, stale_ns: int) -> None:
        """Call an instrument silent after so long from now on."""
        self._stale_ns = stale_ns

    def note(self, block: ClosedBlock, monotonic_ns: int) -> None:
        """Take note of closed triggers and late readings."""
        row = self._row(monotonic_ns)
        if block.triggers:
            self._closed[row] += block.triggers
            self._missing[row] += block.triggers - np.count_nonzero(block.present, axis=0)
            self._seen_ns[block.present.any(axis=0)] = monotonic_ns
            self._newest_ns = monotonic_ns
            self._note_ahead(block.ledger, row)
        if len(block.late):
            instruments = block.late["instrument"]
            np.add.at(self._late[row], instruments, 1)
            np.add.at(self.late, instruments, 1)
            np.subtract.at(self._missing[row], instruments, 1)
            self._seen_ns[instruments] = monotonic_ns

    def _note_ahead(self, ledger: Array, row: int) -> None:
        # As floats: wrong clocks lie further apart than int64 holds.
        ahead = np.subtract(ledger["time_ns"], ledger["first_received_ns"], dtype=float)
        nearest = ahead[np.argmin(np.abs(ahead))]
        if not abs(nearest) >= abs(self._ahead_ns[row]):
            self._ahead_ns[row] = nearest

    def hear(self, instruments: Array, monotonic_ns: int, *, is_fresh: bool = False) -> None:
        """Take note of instruments, by number, that sent something which is in no trigger.

        is_fresh: it is not in one yet, and those that sent nothing are silent meanwhile.
        """
        self._seen_ns[instruments] = monotonic_ns
        if is_fresh:
            self._newest_ns = monotonic_ns

    def states(self, monotonic_ns: int, *, out_of_step: Sequence[int] = ()) -> str:
        """One letter an instrument, in order (see `schemas.api.status.STATE_LETTERS`).

        out_of_step: numbers of those that are desynchronised; their readings are often late or missing because of it.
        """
        recent = self._second > monotonic_ns // 1_000_000_000 - _SECONDS
        closed = max(1, int(self._closed[recent].sum()))
        letters = np.full(len(self._seen_ns), "i" if self._is_idle(monotonic_ns) else "o")
        letters[self._late[recent].sum(axis=0) > FRACTION * closed] = "l"
        letters[self._missing[recent].sum(axis=0) > FRACTION * closed] = "m"
        letters[list(out_of_step)] = "d"
        letters[self._silent()] = "s"
        letters[self._seen_ns == 0] = "n"
        return "".join(letters.tolist())

    def changes(self, group: InstrumentGroup, monotonic_ns: int) -> list[tuple[Severity, str]]:
        """Who fell silent or was heard again since the last call: (severity, text)."""
        silent = self._silent()
        fell, back = np.flatnonzero(silent & ~self._was_silent), np.flatnonzero(self._was_silent & ~silent)
        self._was_silent = silent
        lines = []
        if len(fell):
            names = listing(group.instruments[i] for i in fell)
            quiet_s = (monotonic_ns - int(self._seen_ns[fell].max())) / 1e9
            verb = "is" if len(fell) == 1 else "are"
            lines.append((Severity.WARNING, f"group {group.name}: {names} {verb} silent, for {quiet_s:.1f} s now"))
        if len(back):
            names = listing(group.instruments[i] for i in back)
            lines.append(
                (Severity.INFO, f"group {group.name}: {names} {'is' if len(back) == 1 else 'are'} heard again")
            )
        return lines

    def _silent(self) -> Array:
        # Said of an instrument while others go on: a machine at rest is not a hundred broken instruments.
        return np.asarray((self._newest_ns - self._seen_ns > self._stale_ns) & (self._seen_ns != 0))

    def heard_s(self, monotonic_ns: int) -> Array:
        """Seconds since each instrument was last heard: float64, NaN of one that never was."""
        return np.where(self._seen_ns == 0, np.nan, np.maximum(0.0, (monotonic_ns - self._seen_ns) / 1e9))

    def quiet_s(self, monotonic_ns: int) -> float | None:
        """Seconds since anything was heard of any instrument; None before the first."""
        last_ns = int(self._seen_ns.max())
        return max(0.0, (monotonic_ns - last_ns) / 1e9) if last_ns else None

    def ahead_s(self, monotonic_ns: int) -> float | None:
        """How far the times of triggers were ahead of the node's clock as their first readings came, in seconds.

        That of the trigger of the last seconds where it was least, since readings may come late; negative for behind,
        None without triggers.
        """
        ahead = self._ahead_ns[self._second > monotonic_ns // 1_000_000_000 - _SECONDS]
        ahead = ahead[~np.isnan(ahead)]
        return float(ahead[np.argmin(np.abs(ahead))]) / 1e9 if len(ahead) else None

    def _is_idle(self, monotonic_ns: int) -> bool:
        # Without a trigger nothing says that an instrument is well.
        return 0 < self._newest_ns < monotonic_ns - max(self._stale_ns, _SECONDS * 1_000_000_000)

    def missing_a_trigger(self, monotonic_ns: int) -> float | None:
        """Mean number of instruments missing from a trigger of the last seconds; None without a trigger."""
        recent = self._second > monotonic_ns // 1_000_000_000 - _SECONDS
        closed = int(self._closed[recent].sum())
        return max(0.0, float(self._missing[recent].sum()) / closed) if closed else None

    def _row(self, monotonic_ns: int) -> int:
        second = monotonic_ns // 1_000_000_000
        row = int(second % _SECONDS)
        if self._second[row] != second:
            self._second[row] = second
            self._closed[row] = 0
            self._missing[row] = 0
            self._late[row] = 0
            self._ahead_ns[row] = np.nan
        return row

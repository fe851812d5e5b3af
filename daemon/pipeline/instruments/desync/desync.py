"""The alarm of one group: fed with what assembly closes, asked a few times a second what it makes of it."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from daemon.pipeline.assembly import InHand
from daemon.pipeline.instruments.desync.suspects import Suspects
from daemon.pipeline.instruments.desync.timeline import LEAST, NEAR, NONE, Rows, Timeline, tame
from daemon.pipeline.instruments.desync.verdicts import EVIDENCE, Kind, judge
from daemon.pipeline.instruments.desync.words import Finding
from schemas.batch import ClosedBlock
from schemas.readings import Array, join

ROWS = 256
TIMES = 1 << 18
"""Triggers, and timestamps, looked at in one look; where more come, the newest. With 120 instruments and four looks a
second every trigger is seen up to 1,000 a second, and what it costs does not grow beyond."""


@dataclass(frozen=True)
class _Closed:
    trigger: Array
    times: Array  # NONE where there is no reading
    late: Array

    def __len__(self) -> int:
        return self.times.size + len(self.late)


class Desync:
    """Tells which instruments' trigger numbers or clocks have gone from those of the others.

    `note` copies the timestamps of a block and is cheap; `look` does the work. The reference is the median timestamp of
    a trigger, so that a majority that slips is the reference itself, and of two instruments neither can be blamed.
    """

    def __init__(self, instruments: int, *, limit_ns: int) -> None:
        self._instruments = instruments
        self._limit_ns = limit_ns
        self.most = max(8, min(ROWS, TIMES // instruments))
        self._closed: deque[_Closed] = deque()
        self._waiting = 0
        self._run: int | None = None
        self._timeline = Timeline()
        self._pending = np.empty(0, EVIDENCE)
        self._judged = np.empty(0, np.uint64)
        self._suspects = Suspects()

    @property
    def findings(self) -> dict[int, Finding]:
        """What is wrong now, by instrument."""
        found = {}
        for i, suspect in sorted(self._suspects.by_instrument.items()):
            if suspect.is_out:
                kind, triggers, off_ns = suspect.way(self._limit_ns)
                found[i] = Finding(
                    instrument=i,
                    kind=kind,
                    triggers=triggers,
                    offset_ms=round(off_ns / 1e6, 3),
                    since_trigger=suspect.since,
                )
        return found

    def note(self, block: ClosedBlock) -> None:
        """Take note of closed triggers and late readings."""
        if block.triggers:
            self._begin(int(block.ledger["run"].max()))
        # Readings, and triggers, of the run before still come for a while.
        newest = np.flatnonzero(block.ledger["run"] == self._run)[-self.most :]
        late = block.late[block.revised["run"][block.late_of] == self._run]
        times = np.where(block.present[newest], tame(block.readings["time_ns"][newest]), NONE)
        self._closed.append(_Closed(block.ledger["trigger"][newest], times, late[-self.most * self._instruments :]))
        self._waiting += len(self._closed[-1])
        while self._waiting > self.most * self._instruments and len(self._closed) > 1:
            self._waiting -= len(self._closed.popleft())

    def look(self, in_hand: InHand) -> None:
        """Judge what was there at the last look, by which the others have come, and gather what is there now."""
        self._begin(in_hand.run)
        unplaced = join([in_hand.strays, in_hand.doubles])
        is_at_rest = not self._closed and not len(in_hand.trigger) and not len(unplaced) and not len(self._pending)
        if self._instruments < LEAST or is_at_rest:
            return
        rows = self._rows(in_hand)
        self._timeline.refer(rows)
        if not len(self._timeline):
            return
        verdicts = judge(self._pending, self._timeline, self._limit_ns)
        self._suspects.take(verdicts)
        # A reading is judged once, though it be seen in assembly and again when its trigger has closed.
        judged = np.concatenate([self._judged, _keys(verdicts[verdicts["kind"] != Kind.UNKNOWN])])
        telling = self._telling(rows, unplaced)
        keys = _keys(telling)
        self._pending, self._judged = telling[~np.isin(keys, judged)], judged[np.isin(judged, keys)]

    def _begin(self, run: int) -> None:
        if self._run is not None and run > self._run:
            self._closed.clear()
            self._waiting = 0
            self._timeline.clear()
            self._pending = self._pending[:0]
            self._suspects.begin_run()
        self._run = run if self._run is None else max(run, self._run)

    def _rows(self, in_hand: InHand) -> Rows:
        parts = [(closed.trigger, closed.times) for closed in self._closed]
        parts.append((in_hand.trigger, np.where(in_hand.present, tame(in_hand.times), NONE)))
        late = join([in_hand.strays[:0], *(closed.late for closed in self._closed if len(closed.late))])
        self._closed.clear()
        self._waiting = 0
        return Rows.join(parts, late, self._instruments)

    def _telling(self, rows: Rows, unplaced: Array) -> Array:
        """The readings that may say something, EVIDENCE: not those plainly in step, but of suspects.

        unplaced: record dtype (u,), readings that got into no trigger.
        """
        own_ns, known = self._timeline.when(rows.trigger)
        # So far a timestamp may be from its trigger's time without being anybody else's.
        plain_ns = min(self._limit_ns, self._timeline.nearest_gap_ns(2 * self.most) // NEAR)
        plain = np.abs(np.where(rows.times == NONE, 0, rows.times - own_ns[:, None])) <= plain_ns
        plain &= known[:, None]
        plain[:, list(self._suspects.by_instrument)] = False
        row, instrument = np.nonzero((rows.times != NONE) & ~plain)
        found = np.zeros(len(row) + len(unplaced), EVIDENCE)
        found["instrument"] = np.concatenate([instrument, unplaced["instrument"]])
        found["trigger"] = tame(np.concatenate([rows.trigger[row], unplaced["trigger"]]))
        found["time_ns"] = np.concatenate([rows.times[row, instrument], tame(unplaced["time_ns"])])
        return found


def _keys(evidence: Array) -> Array:
    """One number a reading, different for different readings as far as chance allows: uint64, shape (n,)."""
    parts = [evidence[name].astype(np.uint64) for name in ("instrument", "trigger", "time_ns")]
    factors = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))
    return np.asarray(sum(part * factor for part, factor in zip(parts, factors, strict=True)))

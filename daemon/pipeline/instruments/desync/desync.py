"""The alarm of one group: fed with what assembly closes, asked a few times a second what it makes of it."""

from collections import deque
from collections.abc import Sized
from dataclasses import dataclass

import numpy as np

from daemon.pipeline.assembly import InHand
from daemon.pipeline.instruments.desync.record import Record
from daemon.pipeline.instruments.desync.rows import LEAST, NONE, Rows, references, tame
from daemon.pipeline.instruments.desync.timeline import KEPT, Timeline
from daemon.pipeline.instruments.desync.verdicts import EVIDENCE, NEAR, Kind, Verdicts, judge, too_early
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
    times: Array
    present: Array
    late: Array


@dataclass(frozen=True)
class _Calm:
    """Triggers in which all lie so close together that nobody can be out of step: int64 each, shape (t,)."""

    trigger: Array
    time_ns: Array
    width_ns: Array
    arrived: int


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
        self._calm: deque[_Calm] = deque(maxlen=KEPT)
        self._calm_ns = -1
        self._overflowed = False
        self._run: int | None = None
        self._timeline = Timeline()
        self._spread_ns = 0
        self._active = 0
        self._again = np.empty(0, EVIDENCE)
        self._judged = np.empty(0, np.uint64)
        self._record = Record(instruments, limit_ns)

    @property
    def findings(self) -> dict[int, Finding]:
        """What is wrong now, by instrument."""
        record = self._record
        return {
            int(i): Finding(
                instrument=int(i),
                kind=Kind(int(record.decided[i])),
                triggers=int(record.triggers[i]),
                offset_ms=round(int(record.off_ns[i]) / 1e6, 3),
                since_trigger=int(record.since[i]),
            )
            for i in np.flatnonzero(record.decided != Kind.IN_STEP)
        }

    def note(self, block: ClosedBlock) -> None:
        """Take note of closed triggers and late readings."""
        if not block.triggers and not len(block.late):
            return
        late = block.late
        if block.triggers:
            self._begin(int(block.ledger["run"][-1]))
        if len(late):  # readings of the run before still come for a while
            late = late[block.revised["run"][block.late_of] == self._run]
        if self._is_calm(block):
            if not len(late):
                return
            newest = slice(0, 0)
        else:
            newest = slice(-self.most, None)
        self._closed.append(
            _Closed(
                block.ledger["trigger"][newest].copy(),
                block.readings["time_ns"][newest].copy(),
                block.present[newest],
                late[-self.most * self._instruments :],
            )
        )
        self._waiting += self._cost(self._closed[-1])
        while self._waiting > self.most * self._instruments and len(self._closed) > 1:
            self._waiting -= self._cost(self._closed.popleft())
            self._overflowed = True

    def look(self, in_hand: InHand) -> None:
        """Judge what was noted since the last look, and what assembly has in hand."""
        self._begin(in_hand.run)
        if self._instruments < 3 or not self._anything(in_hand):
            return
        rows = self._rows(in_hand)
        self._refer(rows)
        if not len(self._timeline):
            return
        evidence = self._evidence(rows, join([in_hand.strays, in_hand.doubles]))
        self._calm_ns = -1
        if not len(evidence):
            # Half of what is plain, since the middle of such a trigger is only roughly the median.
            self._calm_ns = -1 if self._record.watched.any() else self._plain_ns() // 2
            return
        verdicts = judge(evidence, self._timeline, limit_ns=self._limit_ns, spread_ns=self._spread_ns)
        self._record.take(evidence, verdicts)
        self._remember(evidence, verdicts)

    def _is_calm(self, block: ClosedBlock) -> bool:
        """Whether nothing in these triggers needs a closer look; then all that is kept of them is when they were."""
        ledger = block.ledger
        if not len(ledger) or self._calm_ns < 0:
            return False
        width_ns, arrived = ledger["last_ns"] - ledger["first_ns"], int(ledger["arrived"].min())
        # Negative where garbage overflowed.
        is_calm = int(width_ns.min()) >= 0 and int(width_ns.max()) <= self._calm_ns
        if not is_calm or 2 * arrived <= self._active or arrived < LEAST:
            return False
        self._calm.append(
            _Calm(ledger["trigger"].copy(), ledger["first_ns"] + width_ns // 2, width_ns, int(ledger["arrived"].max()))
        )
        return True

    def _begin(self, run: int) -> None:
        if self._run is not None and run > self._run:
            self._closed.clear()
            self._calm.clear()
            self._calm_ns = -1
            self._waiting = 0
            self._timeline.clear()
            self._again = self._again[:0]
            self._record.begin_run()
        self._run = run if self._run is None else max(run, self._run)

    def _anything(self, in_hand: InHand) -> bool:
        parts: tuple[Sized, ...] = (
            self._closed,
            self._calm,
            self._again,
            in_hand.trigger,
            in_hand.strays,
            in_hand.doubles,
        )
        return any(len(part) for part in parts)

    def _cost(self, closed: _Closed) -> int:
        return len(closed.trigger) * self._instruments + len(closed.late)

    def _rows(self, in_hand: InHand) -> Rows:
        parts = [(block.trigger, np.where(block.present, tame(block.times), NONE)) for block in self._closed]
        parts.append((in_hand.trigger, np.where(in_hand.present, tame(in_hand.times), NONE)))
        late = join([in_hand.strays[:0], *(block.late for block in self._closed if len(block.late))])
        self._closed.clear()
        self._waiting = 0
        return Rows.join(parts, late, self._instruments)

    def _refer(self, rows: Rows) -> None:
        """Learn when the triggers of these rows were."""
        if self._overflowed:
            self._timeline.clear()
            self._overflowed = False
        here = max([int((rows.times != NONE).any(axis=0).sum()), *(calm.arrived for calm in self._calm)])
        # One look may see a part of a trigger; who is gone for good fades out of the count within seconds.
        self._active = max(here, self._active - 1 - self._active // 16)
        if self._calm:
            self._spread_ns = int(np.median(np.concatenate([calm.width_ns for calm in self._calm])))
            numbers = np.concatenate([calm.trigger for calm in self._calm])
            self._timeline.add(numbers, np.concatenate([calm.time_ns for calm in self._calm]))
            self._calm.clear()
        if not len(rows.trigger):
            return
        found = references(rows, self._active)
        if found.known.any():
            self._spread_ns = found.spread_ns
            self._timeline.add(rows.trigger[found.known], found.time_ns[found.known])

    def _evidence(self, rows: Rows, unplaced: Array) -> Array:
        """The readings that may say something: not those plainly in step, but of watched instruments.

        unplaced: record dtype (u,), readings that got into no trigger.
        """
        own_ns, known = self._timeline.when(rows.trigger)
        plain = np.abs(np.where(rows.times == NONE, 0, rows.times - own_ns[:, None])) <= self._plain_ns()
        plain &= known[:, None]
        telling = (rows.times != NONE) & (~plain | self._record.watched)
        row, instrument = np.nonzero(telling)
        found = np.zeros(len(row) + len(unplaced), EVIDENCE)
        found["instrument"] = np.concatenate([instrument, unplaced["instrument"]])
        found["trigger"] = tame(np.concatenate([rows.trigger[row], unplaced["trigger"]]))
        found["time_ns"] = np.concatenate([rows.times[row, instrument], tame(unplaced["time_ns"])])
        keys = _keys(found)
        seen = np.isin(keys, self._judged)
        self._judged, fresh = keys[seen], found[~seen]
        again = self._again[~np.isin(_keys(self._again), _keys(fresh))]
        fresh["final"] |= np.isin(_keys(fresh), _keys(self._again))
        return np.concatenate([again, fresh])

    def _plain_ns(self) -> int:
        """How far a timestamp may be from its trigger's time without being anybody else's."""
        gaps = np.diff(np.sort(self._timeline.time_ns[-2 * self.most :]))
        return min(self._limit_ns, int(gaps.min(initial=np.iinfo(np.int64).max)) // NEAR)

    def _remember(self, evidence: Array, verdicts: Verdicts) -> None:
        """A reading is judged once, though it be seen in assembly and again when its trigger has closed."""
        self._judged = np.concatenate([self._judged, _keys(evidence[verdicts.kind != Kind.UNKNOWN])])
        again = evidence[too_early(evidence, self._timeline, verdicts)]
        again["final"] = True
        self._again = again


def _keys(evidence: Array) -> Array:
    """One number a reading, different for different readings as far as chance allows: uint64, shape (n,)."""
    parts = [evidence[name].astype(np.uint64) for name in ("instrument", "trigger", "time_ns")]
    factors = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))
    return np.asarray(sum(part * factor for part, factor in zip(parts, factors, strict=True)))

"""The instruments of a group: some of their readings come late, and some never."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from schemas.readings import Array
from tests.support.ninety_days.sent import Sent

SECOND_NS = 1_000_000_000
HOUR_NS = 3_600 * SECOND_NS
DAY_NS = 24 * HOUR_NS
STEP_NS = 8 * HOUR_NS
"""The readings of so long are sent at once."""
TRIGGER_NS = 120 * SECOND_NS
JITTER_NS = SECOND_NS // 2
"""The readings of a trigger lie so far around it: of one at midnight some are of the day before."""
ABSENT = 0.02
COME_LATER = 0.25
"""The part of what is absent that comes after each of the delays; the rest never does."""
NOT_A_NUMBER = 0.01
SKIPPED = 7


@dataclass(frozen=True, kw_only=True)
class Coming:
    """Readings that come at a moment: record dtype, shape (n,). rows_ns: where the row of each lies."""

    due_ns: int
    block: Array
    rows_ns: Array


@dataclass(kw_only=True)
class Instruments:
    """The instruments of a group, and all that they have sent.

    is_rows: whether a row is a reading. delays_ns: after which some of what is absent comes. never: what does not.
    """

    sent: Sent
    is_rows: bool
    delays_ns: tuple[int, ...]
    rng: np.random.Generator
    epoch: int = 1
    trigger: int = 1
    late: list[Coming] = field(default_factory=list)
    never: list[Coming] = field(default_factory=list)

    def take(self, start_ns: int) -> Coming:
        """Take the readings of a step; what is absent of them may come later."""
        if start_ns % (4 * DAY_NS) == 0 and self.trigger > 1:
            self._skip(start_ns)
        times = np.arange(start_ns, start_ns + STEP_NS, TRIGGER_NS)
        block = self._readings(times)
        present = self.rng.random(block.shape) >= ABSENT
        present[np.arange(len(times)), self.rng.integers(0, self.sent.group.size, len(times))] = True
        rows_ns = self._rows_ns(block, present)
        # The row of a trigger at midnight lies in one day, and a late reading of it may be of the other.
        left = ~present & (times % DAY_NS != 0)[:, None]
        for delay_ns in self.delays_ns:
            comes = left & (self.rng.random(block.shape) < COME_LATER)
            left &= ~comes
            self.late.append(Coming(due_ns=start_ns + delay_ns, block=block[comes], rows_ns=rows_ns[comes]))
        self.never.append(Coming(due_ns=start_ns, block=block[left], rows_ns=rows_ns[left]))
        return Coming(due_ns=start_ns, block=block[present], rows_ns=rows_ns[present])

    def due(self, now_ns: int) -> Iterator[Coming]:
        """What comes late by now."""
        due = [each for each in self.late if each.due_ns <= now_ns]
        self.late = [each for each in self.late if each.due_ns > now_ns]
        yield from due

    def restart(self) -> None:
        """The timing system is restarted: triggers are numbered from 1 again."""
        self.epoch, self.trigger = self.epoch + 1, 1

    def bad_trigger(self, time_ns: int, bad: float) -> Coming:
        """A trigger that the server refuses, with a bad value."""
        block = self._readings(np.array([time_ns]))
        block["x"] = bad
        rows_ns = self._rows_ns(block, np.ones(block.shape, bool))
        return Coming(due_ns=time_ns, block=block.ravel(), rows_ns=rows_ns.ravel())

    def bad_late(self, start_ns: int, bad: float) -> Coming:
        """An absent reading of a day, with a bad value, which the server refuses. start_ns: when the day begins."""
        end_ns = start_ns + DAY_NS
        at = next(k for k, each in enumerate(self.never) if start_ns <= each.due_ns < end_ns and len(each.block))
        absent = self.never.pop(at)
        block = absent.block[:1].copy()
        block["x"] = bad
        return replace(absent, block=block, rows_ns=absent.rows_ns[:1])

    def _skip(self, start_ns: int) -> None:
        """Skip numbers that nothing is sent of, but for one whole trigger, which comes after the second delay."""
        self.trigger += SKIPPED // 2
        block = self._readings(np.array([start_ns - TRIGGER_NS // 2]))
        rows_ns = self._rows_ns(block, np.ones(block.shape, bool))
        self.trigger += SKIPPED // 2
        self.late.append(Coming(due_ns=start_ns + self.delays_ns[1], block=block.ravel(), rows_ns=rows_ns.ravel()))

    def _readings(self, times: Array) -> Array:
        """All readings of the next triggers: record dtype, shape (triggers, instruments)."""
        group, rng = self.sent.group, self.rng
        block = np.zeros((len(times), group.size), group.record)
        block["trigger"] = (self.trigger + np.arange(len(times)))[:, None]
        block["instrument"], block["epoch"] = np.arange(group.size), self.epoch
        block["time_ns"] = times[:, None] + rng.integers(-JITTER_NS, JITTER_NS, block.shape)
        block["x"] = rng.standard_normal(block.shape)
        block["x"][rng.random(block.shape) < NOT_A_NUMBER] = np.nan
        block["gain"] = rng.integers(-(2**15), 2**15, block.shape)
        self.trigger += len(times)
        return block

    def _rows_ns(self, block: Array, present: Array) -> Array:
        """Where the row of each reading lies: at its own time, or at that of its trigger, the first one."""
        times = block["time_ns"]
        if self.is_rows:
            return times.copy()
        firsts = np.where(present, times, np.iinfo(np.int64).max).min(axis=1)
        return np.repeat(firsts, self.sent.group.size).reshape(times.shape)

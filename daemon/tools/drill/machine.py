"""The machine of a drill: it defines every reading, so that each reading found can be checked."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from schemas.config import GroupConfig
from schemas.readings import Array, InstrumentGroup

GROUP = "drill"
CHANNELS = ("top_in", "bot_in", "bot_out", "top_out")


@dataclass(frozen=True, kw_only=True)
class ClockStep:
    """The clock of one instrument is put forward by `by_ns`, from `trigger` on."""

    instrument: int
    trigger: int
    by_ns: int


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Instruments that take a reading at every trigger, trigger 1 first.

    rate: triggers a second. start_ns: when trigger 0 would have been, in ns since 1970-01-01 UTC.
    slow: number of an instrument whose readings come `slow_s` seconds after those of the others; None for none.
    """

    instruments: int
    rate: float
    start_ns: int
    slow: int | None = None
    slow_s: float = 0.0
    clock_step: ClockStep | None = None

    @property
    def section(self) -> dict[str, Any]:
        """The group as a section of a configuration."""
        return {"name": GROUP, "count": self.instruments, "channels": [{"name": name} for name in CHANNELS]}

    @property
    def group(self) -> InstrumentGroup:
        """The group as the daemon knows it."""
        return GroupConfig.model_validate(self.section).group()

    def fill(self, block: Array, trigger: Array | int, instrument: Array) -> None:
        """Write readings into a block of the group's record dtype, all of shape (readings,)."""
        block["trigger"] = trigger
        block["instrument"] = instrument
        block["time_ns"] = self.times(trigger, instrument)
        for number, name in enumerate(CHANNELS):
            block[name] = self.values(trigger, instrument, number)

    def times(self, trigger: Array | int, instrument: Array) -> Array:
        """The instruments' own timestamps, int64, in ns since 1970-01-01 UTC."""
        times = self.start_ns + np.asarray(trigger, np.int64) * round(1e9 / self.rate) + np.zeros_like(instrument)
        if self.clock_step is not None:
            step = self.clock_step
            times = times + np.where((instrument == step.instrument) & (trigger >= step.trigger), step.by_ns, 0)
        return np.asarray(times, np.int64)

    def values(self, trigger: Array | int, instrument: Array, channel: int) -> Array:
        """The values of a channel, float64; every double of them is exact."""
        return np.asarray(trigger, np.float64) + np.asarray(instrument, np.float64) / 2**16 + channel / 4

    def matches(self, found: Array) -> Array:
        """Which of the readings found have the time and the values that were sent; bool, shape (readings,)."""
        trigger, instrument = found["trigger"], found["instrument"].astype(np.int64)
        right = found["time_ns"] == self.times(trigger, instrument)
        for number, name in enumerate(CHANNELS):
            right &= found[name] == self.values(trigger, instrument, number)
        return np.asarray(right, bool)

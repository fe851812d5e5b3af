"""Rows: the timestamps of the last triggers side by side, an instrument a column, and the reference of each."""

from dataclasses import dataclass

import numpy as np

from schemas.readings import Array

NONE = np.iinfo(np.int64).max
"""Stands where an instrument has no reading."""


LEAST = 3
"""Instruments without which there is no majority: of two that disagree nobody knows which one is right."""

MOST = 1 << 61
"""Timestamps and numbers are held within this: garbage must not overflow in a difference."""


def tame(values: Array) -> Array:
    """Int64 values of any shape, those beyond MOST at MOST."""
    return np.asarray(np.clip(values, -MOST, MOST))


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Triggers, int64 (t,), ascending, each once; times: int64 ns (t, instruments), NONE where there is no reading."""

    trigger: Array
    times: Array

    @classmethod
    def join(cls, parts: list[tuple[Array, Array]], late: Array, instruments: int) -> "Rows":
        """Join rows (triggers, times) that may share triggers, and single readings, record dtype (l,)."""
        numbers = [trigger for trigger, _ in parts]
        trigger, where = np.unique(np.concatenate([*numbers, late["trigger"]]), return_inverse=True)
        times = np.full((len(trigger), instruments), NONE, np.int64)
        begin = 0
        for mine, part in parts:
            at = where[begin : begin + len(mine)]
            times[at] = np.minimum(times[at], part)
            begin += len(mine)
        times[where[begin:], late["instrument"]] = tame(late["time_ns"])
        return cls(trigger=trigger, times=times)


@dataclass(frozen=True, kw_only=True)
class References:
    """What most instruments say: time_ns int64 (t,), known bool (t,), spread_ns: how far they lie apart, typically."""

    time_ns: Array
    known: Array
    spread_ns: int


def references(rows: Rows, active: int) -> References:
    """The median timestamp of each trigger of which more than half of the `active` instruments are there.

    The spread is how close together half of the instruments lie, in the middle of all such triggers; 0 without one.
    """
    ordered = np.sort(rows.times, axis=1)
    count = np.count_nonzero(ordered != NONE, axis=1)
    known = (2 * count > active) & (count >= LEAST)
    row = np.arange(len(count))
    middle = ordered[row, np.maximum(count - 1, 0) // 2]
    # The narrowest stretch that holds half of them: those that slipped do not widen it.
    half = active // 2
    tamed = np.minimum(ordered[known], MOST)
    widths = (tamed[:, half:] - tamed[:, : tamed.shape[1] - half]).min(axis=1, initial=MOST)
    spread = int(np.median(widths)) if len(widths) else 0
    return References(time_ns=middle, known=known, spread_ns=spread)

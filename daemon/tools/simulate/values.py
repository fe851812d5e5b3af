"""Values that look like an accelerator's: a betatron orbit along the ring that drifts slowly, with noise."""

import numpy as np

from schemas.readings import Array
from schemas.wire import Answer

BANK_BYTES = 4 << 20
"""Memory for records made in advance; they are used again and again with new trigger numbers and times."""

TUNE = 5.31
AMPLITUDE = 1.5
NOISE = 0.01
INTEGER_SCALE = 0.3
"""An orbit of TUNE oscillations round the ring, AMPLITUDE (mm, V, ...) high, NOISE of it random. Integer channels read
like the counts of a button: around the middle of their range (at most 1e6), this part of it up and down a unit."""


def record_bank(layout: Answer, *, seed: int, multiple_of: int = 1) -> Array:
    """Make records in advance, shape (triggers, instruments), of `layout.record`; trigger and time_ns are 0.

    The number of triggers is a multiple of `multiple_of`, and going round and round in them shows no step.
    """
    size = layout.instruments
    triggers = max(1, min(512, BANK_BYTES // (size * layout.record.itemsize)) // multiple_of) * multiple_of
    rng = np.random.default_rng([seed, size])
    bank = np.zeros((triggers, size), layout.record)
    bank["instrument"] = np.arange(size)
    where = 2 * np.pi * np.arange(size) / size
    when = 2 * np.pi * np.arange(triggers)[:, None] / triggers
    beta = 1 + 0.5 * np.cos(6 * where)
    channels = (layout.record.names or ())[4:]
    for number, channel in enumerate(channels):
        phase = TUNE * where + np.pi / 2 * number
        orbit = np.sqrt(beta) * (np.cos(phase) + 0.2 * np.sin(when + phase)) / 1.5
        bank[channel] = _as(layout.record[channel], AMPLITUDE * (orbit + NOISE * rng.standard_normal(orbit.shape)))
    return bank


def clock_offsets(instruments: int, *, seed: int) -> Array:
    """How far each instrument's clock is ahead of the trigger, in ns: up to 2 us, as after a good synchronisation."""
    return np.random.default_rng([seed, instruments, 1]).integers(0, 2000, instruments)


def _as(dtype: np.dtype, values: Array) -> Array:
    if dtype.kind == "f":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    middle = min(limits.max / 2, 1e6)
    return np.clip(middle * (1 + INTEGER_SCALE * values), limits.min, limits.max).astype(dtype)

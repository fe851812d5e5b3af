"""Figures of readings, computed one instrument and step after another, to compare with what a store tells."""

import numpy as np

from schemas.readings import Array, InstrumentGroup

ByChannel = dict[str, tuple[float, ...]]


def computed(readings: Array, step_ns: int, group: InstrumentGroup) -> dict[tuple[int, int], tuple[int, ByChannel]]:
    """By step and instrument how many readings there are, and of each channel its figures, as in FIGURES.

    readings: `answer_dtype(group)`.
    """
    steps = readings["time_ns"] // step_ns * step_ns
    found = {}
    for step, instrument in sorted({*zip(steps.tolist(), readings["instrument"].tolist(), strict=True)}):
        of = readings[(steps == step) & (readings["instrument"] == instrument)]
        channels: ByChannel = {}
        for channel in group.channels:
            values = of[channel.name].astype(np.float64)
            values = values[~np.isnan(values)]
            channels[channel.name] = (0, np.nan, 0.0, np.nan, np.nan)
            if len(values):
                ends = values.min(), values.max()
                with np.errstate(invalid="ignore"):
                    channels[channel.name] = (len(values), values.mean(), values.var() * len(values), *ends)
        found[step, instrument] = len(of), channels
    return found

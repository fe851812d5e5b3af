"""The orbit: what the instruments of a group say of one trigger, each beside its neighbours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Values = np.ndarray[Any, np.dtype[np.float64]]

BUTTONS = ("top_in", "bot_in", "bot_out", "top_out")
"""Channels of a beam position monitor that gives its four buttons."""

X_MM, Y_MM = 20.0, 10.0
"""Gains of the display of CESR's beam position monitors, in mm: x = 20 (in - out) / sum, y = 10 (top - bot) / sum,
where in, out, top and bot are the two buttons of that side added."""

POSITION = "x, y"
"""The choice of a position in place of a channel."""


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One figure over the numbers of the instruments: NaN where there is none."""

    name: str
    unit: str
    values: Values


def choices(channels: Sequence[str]) -> list[str]:
    """What of a group with these channels can be plotted: its position first, if it has one."""
    return [*([POSITION] if _has_position(channels) else []), *channels]


def plots(channels: Mapping[str, Values], units: Mapping[str, str], choice: str) -> list[Plot]:
    """What is plotted of a trigger.

    channels: by name, a value an instrument, NaN of one that is missing. choice: one of `choices`.
    """
    if choice != POSITION:
        return [Plot(name=choice, unit=units.get(choice, ""), values=channels[choice])]
    if {"x", "y"} <= channels.keys():
        return [Plot(name=name, unit=units.get(name, ""), values=channels[name]) for name in ("x", "y")]
    x, y = position(*(channels[button] for button in BUTTONS))
    return [Plot(name="x", unit="mm", values=x), Plot(name="y", unit="mm", values=y)]


def position(top_in: Values, bot_in: Values, bot_out: Values, top_out: Values) -> tuple[Values, Values]:
    """The beam's position in mm of the signals of the four buttons; NaN where they add up to nothing."""
    total = top_in + bot_in + bot_out + top_out
    total = np.where(total == 0, np.nan, total)
    return (
        X_MM * (top_in + bot_in - bot_out - top_out) / total,
        Y_MM * (top_in + top_out - bot_in - bot_out) / total,
    )


def spread(numbers: Sequence[int], values: Sequence[float | None], size: int) -> Values:
    """Values of some instruments as an array of all: NaN of the others."""
    whole = np.full(size, np.nan)
    whole[list(numbers)] = np.array(values, np.float64)
    return whole


def _has_position(channels: Sequence[str]) -> bool:
    return {"x", "y"} <= set(channels) or set(BUTTONS) <= set(channels)

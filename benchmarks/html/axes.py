"""Axes in percent of a plot's side: text stays HTML and keeps its size however wide the plot is."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.html.markup import Markup, join, tag

STEPS = (1, 2, 5)


class Axis(Protocol):
    """What values become places."""

    def at(self, value: float) -> float:
        """Where a value lies, in percent from the low end; beyond the ends it lies on them."""


@dataclass(frozen=True, kw_only=True)
class LogAxis:
    """From `low` to `high`, both positive, low < high."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Where a value lies, in percent from the low end; beyond the ends it lies on them."""
        value = min(max(value, self.low), self.high)
        return 100 * math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self, *, steps: Sequence[int] = (1,)) -> list[float]:
        """The values to name: powers of ten, and the steps between them that are asked for."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        tried = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        slack = 1e-9
        return [value for value in tried if self.low * (1 - slack) <= value <= self.high * (1 + slack)]


@dataclass(frozen=True, kw_only=True)
class LinearAxis:
    """From `low` to `high`, low < high."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Where a value lies, in percent from the low end; beyond the ends it lies on them."""
        value = min(max(value, self.low), self.high)
        return 100 * (value - self.low) / (self.high - self.low)

    def ticks(self, most: int = 5) -> list[float]:
        """At most so many round values to name, evenly spaced."""
        width = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(width))
        step = next(step * power for step in (1, 2, 5, 10) if step * power >= width * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(k * step, 12) for k in range(first, last + 1)]


def from_zero(values: Iterable[float]) -> LinearAxis:
    """A linear axis from 0 to a little above the greatest value."""
    most = max(values, default=0.0)
    return LinearAxis(low=0.0, high=1.08 * most if most > 0 else 1.0)


def around(values: Iterable[float], least: float) -> LinearAxis:
    """A linear axis around values, at least one, and at least so wide: small dips are to be seen."""
    found = sorted(values)
    room = max(0.1 * (found[-1] - found[0]), least / 2)
    return LinearAxis(low=max(0.0, found[0] - room), high=found[-1] + room)


def decades(values: Iterable[float]) -> LogAxis:
    """An axis of whole decades that holds all values; at least one value, all positive."""
    logs = [math.log10(value) for value in values]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return LogAxis(low=10.0**low, high=10.0 ** max(high, low + 1))


def snug(values: Iterable[float]) -> LogAxis:
    """An axis that ends at the next 1, 2 or 5 beyond the values; at least one value, all positive."""
    found = sorted(values)
    return LogAxis(low=_step(found[0], down=True), high=_step(found[-1], down=False))


def _step(value: float, *, down: bool) -> float:
    power = math.floor(math.log10(value))
    tried = [step * 10.0**exponent for exponent in (power - 1, power, power + 1) for step in STEPS]
    return max(t for t in tried if t < value) if down else min(t for t in tried if t > value)


def short(value: float) -> str:
    """A tick's name: 0.5, 10, 100, 1k, 10k, 1M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def bottom(axis: Axis, unit: str, ticks: Sequence[float]) -> Markup:
    """The names under a plot, with the unit after the last."""
    names = [
        tag("span", short(value) + (f" {unit}" if value == ticks[-1] else ""), style=f"left:{axis.at(value):.2f}%")
        for value in ticks
    ]
    return tag("div", join(names), class_="ticks-x", aria_hidden="true")


def side(axis: Axis, ticks: Sequence[float]) -> Markup:
    """The names left of a plot."""
    names = [tag("span", short(value), style=f"bottom:{axis.at(value):.2f}%") for value in ticks]
    return tag("div", join(names), class_="ticks-y", aria_hidden="true")


def grid_x(axis: Axis, ticks: Sequence[float]) -> Markup:
    """Upright lines of a plot whose viewBox is 0 0 100 100."""
    d = "".join(f"M{axis.at(value):.2f} 0V100" for value in ticks)
    return tag("path", d=d, class_="grid")


def grid_y(axis: Axis, ticks: Sequence[float]) -> Markup:
    """Level lines of a plot whose viewBox is 0 0 100 100."""
    d = "".join(f"M0 {100 - axis.at(value):.2f}H100" for value in ticks)
    return tag("path", d=d, class_="grid")


def plot(*shapes: str, label: str) -> Markup:
    """The shapes of a plot, stretched over its box; lines keep their width."""
    return tag("svg", *shapes, viewBox="0 0 100 100", preserveAspectRatio="none", role="img", aria_label=label)

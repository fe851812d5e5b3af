"""Ratios of two conditions that ran the same visits in turns, with 95 % intervals. Pure.

Both conditions saw the same exposures, so that they are compared visit by visit, and what makes a visit slow in both
cancels. Neighbouring visits are alike: intervals come from the slow part of the differences, as the slope's does
(daemon.visits.figures), with the cosines made orthogonal to the constant alone.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from daemon.workloads.visits.figures import LEAST, SLOW_PARTS, line, students_t
from schemas.readings import Array

LEAST_SECONDS = 1e-6
"""Shorter times are taken as this, so that they have a logarithm."""
FARTHEST = 1e4
"""A ratio of slopes is looked for up to here."""
STEPS = 25


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A figure with the ends of its 95 % interval; of a ratio of slopes an end may be infinite."""

    value: float
    low: float
    high: float


def mean(values: Array) -> Interval | None:
    """The mean of values whose neighbours are alike, float64, shape (n,); None of fewer than LEAST."""
    n = len(values)
    if n < LEAST:
        return None
    middles = (np.arange(n) + 0.5) / n
    parts = min(SLOW_PARTS, max(3, n // 4))
    slow = np.column_stack([np.cos(np.pi * k * middles) for k in range(1, parts + 1)])
    seen = slow.T @ (values - values.mean()) * math.sqrt(2 / n)
    half = students_t(parts) * math.sqrt(float(seen @ seen) / parts / n)
    middle = float(values.mean())
    return Interval(value=middle, low=middle - half, high=middle + half)


def ratio(of: Array, to: Array) -> Interval | None:
    """Seconds by seconds, visit by visit: the geometric mean of the ratios. float64, shape (n,) each."""
    found = mean(np.log(np.maximum(of, LEAST_SECONDS)) - np.log(np.maximum(to, LEAST_SECONDS)))
    if found is None:
        return None
    return Interval(value=math.exp(found.value), low=math.exp(found.low), high=math.exp(found.high))


def slope_ratio(visits: Array, of: Array, to: Array) -> Interval | None:
    """Slope of `of` by the slope of `to`: all r are in the interval at which `of - r * to` may be flat.

    That is E. C. Fieller's way (J. R. Stat. Soc. B 16 (1954) 175) with paired visits. None where `to` has no slope
    that is surely positive, or there are too few visits.
    """
    bottom, top = line(visits, to), line(visits, of)
    if bottom is None or top is None or bottom.slope_low <= 0:
        return None
    value = top.slope_per_1000 / bottom.slope_per_1000

    def may_be_flat(r: float) -> bool:
        fit = line(visits, of - r * to)
        return fit is not None and fit.slope_low <= 0 <= fit.slope_high

    return Interval(value=value, low=_edge(may_be_flat, value, -1.0), high=_edge(may_be_flat, value, 1.0))


def bend(visits: Array, seconds: Array) -> Interval | None:
    """How far seconds against visit are from a straight line, as a part of their growth over the run.

    Between the middle and the ends, by a least-squares parabola: 0 is straight, 0.25 is a parabola that begins level,
    and below 0 the growth slows. None where nothing grows for sure, or there are too few visits.
    """
    fit, n = line(visits, seconds), len(visits)
    if fit is None or fit.slope_low <= 0 or n < 2 * LEAST:
        return None
    x = (visits - visits.mean()) / np.ptp(visits)
    middles = (np.arange(n) + 0.5) / n
    slow = [np.cos(np.pi * k * middles) for k in range(3, 3 + SLOW_PARTS)]
    basis, _ = np.linalg.qr(np.column_stack([np.ones(n), x, x**2, *slow]))
    parabola = basis[:, 2] * np.sign(basis[-1, 2])
    deep = (parabola[0] + parabola[-1]) / 2 - parabola[n // 2]
    growth = fit.slope_per_1000 * np.ptp(visits) / 1000
    seen = basis[:, 3:].T @ seconds
    half = students_t(SLOW_PARTS) * math.sqrt(float(seen @ seen) / SLOW_PARTS) * deep / growth
    value = float(parabola @ seconds) * deep / growth
    return Interval(value=value, low=value - half, high=value + half)


def _edge(inside: Callable[[float], bool], value: float, direction: float) -> float:
    """Where `inside` ends, from `value` on, up or down; infinite where it does not."""
    step = max(abs(value), 0.01) / 64
    while inside(value + direction * step):
        step *= 2
        if step > FARTHEST:
            return direction * math.inf
    near, far = 0.0, step
    for _ in range(STEPS):
        middle = (near + far) / 2
        near, far = (middle, far) if inside(value + direction * middle) else (near, middle)
    return value + direction * far


def ends(seconds: Array, part: float = 0.1) -> tuple[float, float]:
    """Mean seconds of the first and of the last visits, a tenth of them each, at least one visit. shape (n,), n > 0."""
    count = max(1, round(part * len(seconds)))
    return float(seconds[:count].mean()), float(seconds[-count:].mean())


def spread(periods: Array, seconds: Mapping[int, float]) -> Array:
    """The seconds of each period, evenly over its visits: float64, shape (visits,).

    What comes after the last of these periods has its own seconds still to come: a visit then gets as much as one of
    that last period, so that no end of a run is without them.

    Args:
        periods: of each visit, int64, shape (visits,), in order.
        seconds: by period.

    """
    found = np.zeros(len(periods))
    for period, all_of_it in seconds.items():
        inside = periods == period
        found[inside] = all_of_it / max(1, int(np.count_nonzero(inside)))
    if seconds and (last := periods == max(seconds)).any():
        found[periods > max(seconds)] = found[last][0]
    return found


def paired(one: Sequence[int], other: Sequence[int]) -> tuple[Array, Array, Array]:
    """Visits that both have, and where they are in each: int64, shape (n,) each."""
    visits, first, second = np.intersect1d(np.asarray(one), np.asarray(other), return_indices=True)
    return visits, first, second

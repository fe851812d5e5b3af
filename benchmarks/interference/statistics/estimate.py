"""Estimates with intervals of 95 % confidence: pure functions of numpy.

A block of B is compared with the two blocks of A around it. With y the logarithms of a figure by block,

    d_k = y(B_k) - (y(A before) + y(A after)) / 2,        ratio = exp(delta), delta the common mean of the d_k,

so that exp(d_k) is B by the geometric mean of its neighbours, and a straight drift of y over the run cancels in each.
Neighbouring d_k share a block of A, so they are not independent: with d = L y and blocks alike in variance, cov(d) is
in proportion to V = L L'. delta is the generalised least squares estimate (A. C. Aitken, Proc. R. Soc. Edinb. 55
(1936) 42):

    delta = 1'V^-1 d / 1'V^-1 1,    s^2 = (d - delta)'V^-1(d - delta) / (n - 1),    delta +- t(n-1) s / sqrt(1'V^-1 1)

with t the 97.5 % point of Student's distribution: exact for normal y of one variance. Blocks of B that scatter more
than those of A make it wider than need be, and not too narrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from daemon.workloads.visits.figures import students_t
from schemas.api.interference import Mean, Ratio
from schemas.readings import Array


@dataclass(frozen=True)
class Estimate:
    """A mean, half the width of its interval (None of a single value), and how many values it is of."""

    value: float
    half: float | None
    count: int


def contrast(y: Array, weights: Array) -> Estimate:
    """The common mean of `weights @ y`. y: float64, shape (m,); weights: shape (n, m), n > 0, of full rank."""
    d = weights @ y
    # Differences of blocks that agree to the last bit have no scatter, and rounding must not make one.
    inverse = np.linalg.inv(weights @ weights.T)
    total = float(inverse.sum())
    mean = float(inverse.sum(axis=0) @ d) / total
    if len(d) < 2:
        return Estimate(mean, None, len(d))
    residual = d - mean
    variance = max(0.0, float(residual @ inverse @ residual)) / (len(d) - 1)
    return Estimate(mean, students_t(len(d) - 1) * float(np.sqrt(variance / total)), len(d))


def against_neighbours(chosen: Sequence[int], before: Sequence[int], after: Sequence[int], blocks: int) -> Array:
    """The rows of L: block chosen[k] against before[k] and after[k]; float64, shape (len(chosen), blocks)."""
    weights = np.zeros((len(chosen), blocks))
    for row, (block, first, second) in enumerate(zip(chosen, before, after, strict=True)):
        weights[row, block] = 1.0
        weights[row, [first, second]] = -0.5
    return weights


def ratio_of(estimate: Estimate) -> Ratio:
    """A ratio of an estimate of its logarithm."""
    low, high = _limits(estimate)
    value = float(np.exp(estimate.value))
    if low is None or high is None:
        return Ratio(ratio=value, low=None, high=None, pairs=estimate.count)
    return Ratio(ratio=value, low=float(np.exp(low)), high=float(np.exp(high)), pairs=estimate.count)


def geometric_mean(values: Sequence[float]) -> Mean:
    """Of independent positive values, at least one: the mean of the logarithms with Student's interval."""
    estimate = independent(np.log(np.asarray(values, np.float64)))
    found = ratio_of(estimate)
    return Mean(value=found.ratio, low=found.low, high=found.high, blocks=estimate.count)


def arithmetic_mean(values: Sequence[float]) -> Mean:
    """Of independent values, at least one, with Student's interval."""
    estimate = independent(np.asarray(values, np.float64))
    low, high = _limits(estimate)
    return Mean(value=estimate.value, low=low, high=high, blocks=estimate.count)


def independent(values: Array) -> Estimate:
    """The mean of independent values: float64, shape (n,), n > 0."""
    return contrast(values, np.eye(len(values)))


def drift_of(y: Array, at: Array) -> tuple[float, float]:
    """The rise of y along a straight line from the first to the last, and the scatter around it (0 below 3 values).

    y, at: float64, shape (n,), n > 0.
    """
    if len(y) < 2:
        return 0.0, 0.0
    slope, offset = np.polyfit(at, y, 1)
    residual = y - (slope * at + offset)
    scatter = float(np.sqrt(residual @ residual / (len(y) - 2))) if len(y) > 2 else 0.0
    return float(slope * (at[-1] - at[0])), scatter


def crossing_of(doses: Sequence[int], values: Sequence[float], limit: float) -> float | None:
    """The first dose at which values, joined by straight lines, rise above a limit; None if they do not.

    doses: ascending.
    """
    if values and values[0] > limit:
        return float(doses[0])
    for i in range(1, len(doses)):
        if values[i] > limit:
            part = (limit - values[i - 1]) / (values[i] - values[i - 1])
            return doses[i - 1] + part * (doses[i] - doses[i - 1])
    return None


def _limits(estimate: Estimate) -> tuple[float | None, float | None]:
    if estimate.half is None:
        return None, None
    return estimate.value - estimate.half, estimate.value + estimate.half

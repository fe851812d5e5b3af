"""Figures of a run's visits: the line through them, boxes of bins, the fraction over a limit. Pure.

Neighbouring visits are alike: a checkpoint or a cold cache slows several of them in turn. The usual interval of a
slope, which takes residuals for independent, is then far too narrow. Here it is computed from the slow part of the
residuals alone (U. K. Mueller and M. W. Watson, Econometrica 76 (2008) 979): with v_1 ... v_q the slowest cosines over
the run, made orthonormal to each other and to the straight lines, and u the residuals,

    s^2 = (v_1'u)^2 + ... + (v_q'u)^2 over q,      slope +- t(q) * s * h / sqrt(sum (x - mean x)^2),

with t the 97.5 % point of Student's distribution: exact for independent residuals, and right for those that are alike
over much less than the q-th part of the run, as the v_k are too slow to see that. h >= 1 widens it where visits near
the ends scatter more than those in the middle (H. White, Econometrica 48 (1980) 817).
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from daemon.workloads.visits.archive import DTYPE
from schemas.api.visits import TIMES, Box, Line, Over, VisitsRun
from schemas.readings import Array

SLOW_PARTS = 8
"""Cosines that tell the scatter. More make the interval narrower, and blind to what lasts long."""
LEAST = 8
"""Through fewer visits no line is drawn."""
MOST_BOXES = 30
LEAST_IN_BOX = 5
THINNED_BY = ("visit_s", "select_s", "store_s")
HALVINGS = 60
"""Of an interval of angles: what is left of it is less than a float can tell apart."""


@lru_cache
def students_t(freedom: int) -> float:
    """The 97.5 % point of Student's distribution, for a whole number of degrees of freedom, at least 1.

    The probability that |T| < t is then a finite sum of powers of cos(angle), with angle = arctan(t / sqrt(freedom))
    (M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions (1964) 26.7.3 and 26.7.4), and rises with t.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < 0.95 else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """The probability that |T| < sqrt(freedom) tan(angle)."""
    is_odd = freedom % 2
    steps = np.arange(1 + is_odd, freedom - 2, 2)
    cosine = math.cos(angle)
    terms = np.cumprod([cosine if is_odd else 1.0, *(steps / (steps + 1) * cosine**2)])
    series = math.sin(angle) * float(terms.sum())
    if freedom == 1:
        series = 0.0
    return (angle + series) * 2 / math.pi if is_odd else series


def line(visits: Sequence[int] | Array, seconds: Sequence[float] | Array) -> Line | None:
    """Straight line through seconds against visit, by least squares, with the slope's 95 % interval.

    Args:
        visits: numbers of the visits, shape (n,), in any order.
        seconds: of each, shape (n,).

    Returns:
        None of fewer than LEAST visits, or when they all have one number.

    """
    x, y = _ordered(visits, seconds)
    if len(x) < LEAST or x[0] == x[-1]:
        return None
    from_mean = x - x.mean()
    sxx = float(from_mean @ from_mean)
    slope = float(from_mean @ y) / sxx
    residual = y - y.mean() - slope * from_mean
    half = _half(from_mean, residual) / math.sqrt(sxx)
    return Line(
        intercept=float(y.mean()) - slope * float(x.mean()),
        slope_per_1000=1000 * slope,
        slope_low=1000 * (slope - half),
        slope_high=1000 * (slope + half),
        visits=len(x),
    )


def _half(from_mean: Array, residual: Array) -> float:
    """Half of the interval, times sqrt(sxx)."""
    n = len(residual)
    parts = min(SLOW_PARTS, max(3, n // 4))
    middles = (np.arange(n) + 0.5) / n
    slow = [np.cos(np.pi * k * middles) for k in range(1, parts + 1)]
    basis, _ = np.linalg.qr(np.column_stack([np.ones(n), from_mean, *slow]))
    seen = basis[:, 2:].T @ residual
    at_ends, everywhere = np.mean((from_mean * residual) ** 2), np.mean(from_mean**2) * np.mean(residual**2)
    wider = max(1.0, math.sqrt(at_ends / everywhere)) if everywhere > 0 else 1.0
    return students_t(parts) * math.sqrt(float(seen @ seen) / parts) * wider


def at(fit: Line, visit: float) -> float:
    """Seconds that a line has at a visit."""
    return fit.intercept + fit.slope_per_1000 * visit / 1000


def bin_visits(visits: int) -> int:
    """A width of bins for a run of so many visits: 1, 2 or 5 times a power of ten; 1,000 for 24,000 as in the paper."""
    least = max(visits / MOST_BOXES, LEAST_IN_BOX)
    power: int = 10 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)


def boxes(visits: Sequence[int] | Array, seconds: Sequence[float] | Array, bin_visits: int) -> list[Box]:
    """Seconds by bin of visits; a bin begins at each multiple of `bin_visits`, and an empty one is left out.

    `first` and `last` are of the visits that are there.
    """
    found = []
    for numbers, values in _binned(visits, seconds, bin_visits):
        q1, median, q3 = np.percentile(values, (25, 50, 75))
        found.append(
            Box(
                first=int(numbers[0]),
                last=int(numbers[-1]),
                low=float(values.min()),
                q1=float(q1),
                median=float(median),
                q3=float(q3),
                high=float(values.max()),
                mean=float(values.mean()),
            )
        )
    return found


def over(seconds: Sequence[float] | Array, limit_s: float) -> float:
    """Fraction of visits that took longer than `limit_s`; of no visits 0."""
    values = np.asarray(seconds, np.float64)
    return float(np.mean(values > limit_s)) if len(values) else 0.0


def over_by_bin(
    visits: Sequence[int] | Array, seconds: Sequence[float] | Array, limit_s: float, bin_visits: int
) -> list[Over]:
    """The same by bin, with the bins of `boxes`."""
    return [
        Over(first=int(numbers[0]), last=int(numbers[-1]), fraction=over(values, limit_s))
        for numbers, values in _binned(visits, seconds, bin_visits)
    ]


def thinned(columns: Mapping[str, Array], points: int, *, by: Sequence[str] = THINNED_BY) -> dict[str, Array]:
    """At most so many rows of columns that are too long to be drawn.

    The first and the last row stay, those with the least and the greatest value of every column, and of each of equal
    stretches those with the least and the greatest of the columns named `by`, as far as they are there. So no extreme
    is lost, be `points` as small as it may: the extremes of the whole are not counted against it.

    Args:
        columns: numbers, shape (n,) each, in the order of the visits.
        points: rows to keep.
        by: columns whose extremes of each part are kept.

    """
    n = max((len(column) for column in columns.values()), default=0)
    if n <= points:
        return dict(columns)
    keep = {0, n - 1}
    for column in columns.values():
        keep |= {int(np.argmin(column)), int(np.argmax(column))}
    shown = [columns[name] for name in by if name in columns] or list(columns.values())
    stretches = (points - len(keep)) // (2 * len(shown))
    edges = np.linspace(0, n, stretches + 1).astype(int) if stretches > 0 else np.zeros(1, int)
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        for column in shown:
            keep |= {begin + int(np.argmin(column[begin:end])), begin + int(np.argmax(column[begin:end]))}
    rows = np.array(sorted(keep))
    return {name: column[rows] for name, column in columns.items()}


def _ordered(visits: Sequence[int] | Array, seconds: Sequence[float] | Array) -> tuple[Array, Array]:
    x, y = np.asarray(visits, np.float64), np.asarray(seconds, np.float64)
    order = np.argsort(x, kind="stable")
    return x[order], y[order]


def _binned(
    visits: Sequence[int] | Array, seconds: Sequence[float] | Array, bin_visits: int
) -> list[tuple[Array, Array]]:
    """Numbers and seconds of each bin that has visits, in order."""
    x, y = _ordered(visits, seconds)
    if not len(x):
        return []
    begins = np.flatnonzero(np.diff(x // bin_visits)) + 1
    return list(zip(np.split(x, begins), np.split(y, begins), strict=True))


# --- what is drawn of a run ------------------------------------------------------------------------------------------

COLUMNS = tuple(name for name in DTYPE.names or () if name not in ("resumed", "tiles"))
FITTED = ("visit_s", "select_s", "store_s")
PAPER_LABEL = "LSST DMTN-113, PostgreSQL on NVMe, 15 x 15 tiles"
PAPER = 2.425, 0.164
"""Its fit: seconds, and seconds per 1,000 visits. At a scale a visit has that part of the objects, and its history is
as long after the same number of visits, as the sky is smaller, too: the intercept shrinks and the slope stays."""
DIGITS = 6


def curves(run: VisitsRun, rows: Array, points: int) -> dict[str, Any]:
    """All of it as the API answers; a second of the processor for 200,000 visits, so nothing for the event loop.

    Args:
        run: without its visits.
        rows: what was measured, `series.DTYPE`.
        points: visits that are listed, the extremes always among them.

    """
    # The seconds of one that was resumed are those of the rest.
    whole = rows[~rows["resumed"]]
    visits, seconds, limit_s = whole["visit"], whole["visit_s"], run.settings.limit_s
    width = bin_visits(int(visits[-1]) + 1 if len(visits) else 1)
    found = boxes(visits, seconds, width)
    fits = {name: line(visits, whole[name]) for name in FITTED}
    return {
        "id": run.id,
        "index_mode": run.settings.index_mode,
        "columns": {name: _rounded(values) for name, values in thinned(_columns(rows), points).items()},
        "fits": {name: None if fit is None else fit.model_dump() for name, fit in fits.items()},
        "visits": len(rows),
        "boxes": [box.model_dump() for box in found],
        "bin": width,
        "parts": {name: _means(visits, whole[name], found) for name in TIMES},
        "over": [part.model_dump() for part in over_by_bin(visits, seconds, limit_s, width)],
        "sizes": {name: size.model_dump() for name, size in run.sizes.items()},
        "counts": run.counts,
        "expected": run.expected,
        "limit_s": limit_s,
        "paper": _paper(run.settings.survey.scale),
        "settings": run.settings.model_dump(mode="json", by_alias=True),
        "problem": run.problem,
    }


def _paper(scale: float) -> dict[str, Any]:
    scaled = "" if scale == 1 else f"; its intercept times the scale of {scale:g}"
    return {"label": PAPER_LABEL + scaled, "intercept": PAPER[0] * scale, "slope_per_1000": PAPER[1]}


def _means(visits: Array, seconds: Array, found: Sequence[Box]) -> list[float]:
    """Of the visits of each box, in its order."""
    order = np.argsort(visits, kind="stable")
    begins = np.searchsorted(visits[order], [box.first for box in found])
    parts = np.split(seconds[order].astype("<f8"), begins[1:])
    return [round(float(part.mean()), DIGITS) for part in parts] if len(found) else []


def _columns(rows: Array) -> dict[str, Array]:
    return {name: rows[name] for name in COLUMNS}


def _rounded(values: Array) -> list[Any]:
    rounded: list[Any] = (np.round(values.astype("<f8"), DIGITS) if values.dtype.kind == "f" else values).tolist()
    return rounded

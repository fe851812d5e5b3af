"""How long the rest of a run will take: a visit takes longer the more history there is."""

import numpy as np

from schemas.api.visits import Line
from schemas.config.visits import Cadence, VisitsConfig

LEAST = 30
"""Visits through which a line says something about those to come."""
POINTS = 1000


def remaining_s(
    settings: VisitsConfig, *, done: int, fit: Line | None, mean_s: float | None, overhead_s: float
) -> float | None:
    """Seconds until `settings.visits` are done; None before there is anything to go by.

    Args:
        settings: of the run.
        done: visits in the database.
        fit: seconds of a visit against its number.
        mean_s: seconds of a visit, lately.
        overhead_s: what a visit takes on top: the making of its sources, mostly.

    """
    left = settings.visits - done
    if left <= 0:
        return 0.0
    if mean_s is None:
        return None
    visits = np.linspace(done, settings.visits - 1, min(left, POINTS))
    each_s = _seconds(visits, done, fit, mean_s) + overhead_s
    if settings.cadence is Cadence.REAL:
        each_s = np.maximum(each_s, settings.survey.visit_interval_s)
    return float(each_s.mean() * left)


def _seconds(visits: np.ndarray, done: int, fit: Line | None, mean_s: float) -> np.ndarray:
    """Seconds of visits to come: from what they take lately along the line, where there is one.

    A slope that may as well be none is taken for none: through few visits it would say anything.
    """
    if fit is None or fit.visits < LEAST or fit.slope_low <= 0 <= fit.slope_high:
        return np.full(len(visits), mean_s)
    return np.maximum(mean_s + fit.slope_per_1000 * (visits - done) / 1000, 0.0)

"""What is drawn of a run: columns thinned to what a screen shows, lines, boxes, the fraction over the limit."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from daemon.workloads.visits.figures import bin_visits, boxes, line, over_by_bin, thinned
from daemon.workloads.visits.series import DTYPE
from schemas.api.visits import TIMES, Box, VisitsRun
from schemas.readings import Array

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

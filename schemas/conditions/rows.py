"""Flat rows of intervals, as the server of conditions answers them, in columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.conditions.intervals import KEY_DTYPE, Intervals
from schemas.readings import Array

FLAT = 8
"""Fields of a row that are looked at: type, url, checksum, size, start and end."""


def intervals_of_rows(rows: Sequence[Sequence[Any]]) -> Intervals:
    """Flat rows (type, url, checksum, size, major, minor, major_end, minor_end, ...) of one list as columns."""
    keys = np.array([row[4:FLAT] for row in rows], np.int64).reshape(-1, 4)
    return Intervals(
        ids=np.zeros(len(rows), np.int64),
        starts=_keys(keys[:, :2]),
        ends=_keys(keys[:, 2:]),
        urls=np.array([row[1] for row in rows], object),
        checksums=np.array([row[2] for row in rows], object),
        sizes=np.array([-1 if row[3] is None else row[3] for row in rows], np.int64),
        inserted_ns=np.zeros(len(rows), np.int64),
    )


def _keys(pairs: Array) -> Array:
    return np.ascontiguousarray(pairs).view(KEY_DTYPE)[:, 0]

"""Which interval of a list is valid at each of many keys, and the stretches of keys that have the same one."""

from collections.abc import Iterator

import numpy as np

from schemas.conditions.intervals import Intervals
from schemas.readings import Array


def valid_at(intervals: Intervals, major: Array, minor: Array) -> Array:
    """The interval that is valid at each key.

    Args:
        intervals: of one list.
        major: int64, shape (n).
        minor: int64, shape (n).

    Returns:
        Positions in `intervals`, int64, shape (n); -1 where none is valid.
    """
    starts, ends = intervals.starts, intervals.ends
    # Pairs are compared as single numbers: their ranks among the majors and the minors of the starts.
    majors, minors = np.unique(starts["major"]), np.unique(starts["minor"])
    width = len(minors) + 1
    ranks = np.searchsorted(majors, starts["major"]) * width + np.searchsorted(minors, starts["minor"], "right")
    at = np.searchsorted(majors, major, "right") - 1
    has_major = (at >= 0) & (majors[at] == major) if len(majors) else np.zeros(len(at), bool)
    within = np.where(has_major, np.searchsorted(minors, minor, "right"), len(minors))
    found = np.searchsorted(ranks, at * width + within, "right") - 1
    begun = np.flatnonzero(found >= 0)
    end = ends[found[begun]]
    is_over = (major[begun] > end["major"]) | ((major[begun] == end["major"]) & (minor[begun] >= end["minor"]))
    found[begun[is_over]] = -1
    return found


def stretches(valid: Array) -> Iterator[tuple[int, Array]]:
    """Each interval that `valid_at` found, and where: its position, and the indices of its keys in ascending order."""
    order = np.argsort(valid, kind="stable")
    borders = np.flatnonzero(np.diff(valid[order])) + 1
    for where in np.split(order, borders) if len(order) else ():
        yield int(valid[where[0]]), where

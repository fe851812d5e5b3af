"""Stretches of time: trimming to them, and those that hold more than their asker has room for."""

import numpy as np

from backends.base import AnswerTooLarge
from backends.columns.stored import slack
from schemas.batch import Layout
from schemas.queries import WindowReadings
from schemas.readings import Array


def rows_to_know(query: WindowReadings, layout: Layout) -> int | None:
    """How many rows (documents) show that there are more than `most` readings; None where all are wanted."""
    return None if query.most is None else _fitting(query.most, query, layout) + 1


def see_not_too_large(readings: Array, query: WindowReadings, layout: Layout) -> None:
    """Refuse an answer that was cut off at `rows_to_know`.

    readings: of all these rows, also those that are outside of the stretch; of a trigger side by side.

    Raises:
        AnswerTooLarge: there may be more.
    """
    if query.most is None or not len(readings):
        return
    rows = len(readings)
    if layout is Layout.ARRAYS:
        follows = (readings["trigger"][1:] != readings["trigger"][:-1]) | (readings["run"][1:] != readings["run"][:-1])
        rows = 1 + int(np.count_nonzero(follows))
    if rows > _fitting(query.most, query, layout):
        raise AnswerTooLarge(query.most)


def _fitting(most: int, query: WindowReadings, layout: Layout) -> int:
    return most if layout is Layout.ROWS else max(1, most // query.group.size)


def triggers_in_window(query: WindowReadings) -> tuple[int, int]:
    """In the arrays layout, the first and the last time of the triggers whose rows answer a question, in ns."""
    return (query.start_ns, query.end_ns - 1) if query.by_trigger else slack(query.start_ns, query.end_ns)


def within(readings: Array, query: WindowReadings, layout: Layout) -> Array:
    """Of the readings of all rows that may have some in a stretch, those that do."""
    if query.by_trigger and layout is Layout.ARRAYS:
        return readings
    return between(readings, query.start_ns, query.end_ns)


def between(readings: Array, start_ns: int, end_ns: int) -> Array:
    """Leave out what is not within start_ns <= time_ns < end_ns: what was asked of a store's keys may cover more."""
    inside = (readings["time_ns"] >= start_ns) & (readings["time_ns"] < end_ns)
    return readings if inside.all() else readings[inside]


def in_order(readings: Array) -> Array:
    """Put readings by run, trigger and instrument."""
    keys = readings["instrument"], readings["trigger"], readings["run"]
    return np.asarray(readings[np.lexsort(keys)])

"""What an answer has read of the readings of its group.

The table is in the order of time and has no other index: whoever reads it begins somewhere, or in several parts
of it, and reads the rows that follow.
"""

from math import ceil

import numpy as np

from backends.counting import HOUR_NS, HourRead
from schemas.batch import Layout
from schemas.queries import (
    Aggregate,
    InstrumentReadings,
    Means,
    NewestTrigger,
    Query,
    Snapshot,
    TriggerReadings,
    TriggersReadings,
    WindowReadings,
)
from schemas.readings import Array


def read_by(query: Query, answer: Array, layout: Layout) -> list[HourRead]:
    """What an answer has read, by the hour.

    Known: rows whose readings are in the answer, and those that means were made of (where readings were reduced, also
    what they were: more than there are rows). Estimated: for readings of one instrument, that the rows of the others
    lie between them; for means in the arrays layout, that no trigger lacks an instrument. Rows that were gone through
    and are not in the answer do not count, nor does what was read of a ledger.
    """
    if not len(answer):
        return []
    if isinstance(query, Aggregate):
        return [HourRead(query.group.name, None, 1, 0, 0)]
    if isinstance(query, Snapshot):
        answer = np.sort(answer, order=("run", "trigger"))
    rows = _rows(query, answer, layout)
    if rows is None:
        return []
    times = answer["time_ns"]
    begun = times[_begun(answer)] if isinstance(query, TriggersReadings) else times[:1]
    return _by_hour(query.group.name, times, rows, begun)


def _rows(query: Query, answer: Array, layout: Layout) -> Array | None:
    """How many rows were read for each part of an answer; None where that is about a ledger."""
    size, is_arrays = query.group.size, layout is Layout.ARRAYS
    match query:
        case Means():
            return np.asarray(answer["count"] / (size if is_arrays else 1))
        case InstrumentReadings():
            return np.full(len(answer), 1 if is_arrays else size)
        case NewestTrigger() | TriggerReadings() | TriggersReadings() | WindowReadings() | Snapshot():
            return _firsts(answer) if is_arrays else np.ones(len(answer))
        case _:
            return None


def _firsts(readings: Array) -> Array:
    """Which readings are the first ones of their trigger; those of a trigger are side by side."""
    changes = (readings["trigger"][1:] != readings["trigger"][:-1]) | (readings["run"][1:] != readings["run"][:-1])
    return np.append(True, changes)


def _begun(readings: Array) -> Array:
    """Which readings do not follow the trigger before: there reading began anew."""
    follows = readings["trigger"][1:] - readings["trigger"][:-1]
    return np.append(True, (follows < 0) | (follows > 1))


def _by_hour(group: str, times: Array, rows: Array, begun: Array) -> list[HourRead]:
    """Put together what one answer has read.

    times: of what was read, in ns; rows: how many rows each stands for. begun: times of what reading began with.
    """
    hours = times // HOUR_NS
    least = int(hours.min())
    # All times that there are have five million hours: a clock that is wrong costs some memory for a moment.
    read = np.bincount(hours - least, weights=rows)
    starts = np.bincount(begun // HOUR_NS - least, minlength=len(read))
    return [
        HourRead(group, least + hour, 1, int(starts[hour]), ceil(read[hour])) for hour in np.flatnonzero(read).tolist()
    ]

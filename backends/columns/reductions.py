"""Figures made of many readings, which come in bounded chunks: for stores whose server cannot make them itself.

Pure numpy. What is kept grows with the answer, never with the readings that went by.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from schemas.queries import Aggregate, Means, Reduction, Snapshot, aggregate_dtype, answer_dtype, means_dtype
from schemas.readings import Array, Channel, InstrumentGroup

DENSE = 4
"""A table with a place for every instrument and step is used while it has at most so many places a reading."""
MERGE_ROWS = 65_536
"""Partial sums are put together when they have doubled, and at least so many came."""
LEAST_NS = -(2**63)


class Reducer(Protocol):
    """Makes an answer of readings that come in chunks."""

    def add(self, readings: Array) -> None:
        """Take readings: `answer_dtype(group)`, shape (n,), in any order."""

    def answer(self) -> Array:
        """The answer, made of all that were taken."""


class MeansReducer:
    """Makes the answer to `Means`; readings outside its time do not count."""

    def __init__(self, query: Means) -> None:
        self._query = query
        self._channels = query.group.channels
        self._parts: list[Array] = [np.empty(0, _sums_dtype(self._channels))]
        self._rows = self._merged = 0

    def add(self, readings: Array) -> None:
        """Take readings: `answer_dtype(group)`, shape (n,), in any order."""
        query = self._query
        times = readings["time_ns"]
        inside = (times >= query.start_ns) & (times < query.end_ns)
        if not inside.all():
            readings, times = readings[inside], times[inside]
        if not len(readings):
            return
        steps = times // query.step_ns
        part = _sums(readings, steps, self._channels, query.group.size)
        self._parts.append(part)
        self._rows += len(part)
        if self._rows > max(MERGE_ROWS, 2 * self._merged):
            self._merge()

    def answer(self) -> Array:
        """The means so far: `means_dtype(group)`, by instrument and time."""
        self._merge()
        return means_of(self._parts[0], self._query)

    def _merge(self) -> None:
        self._parts = [_merged(np.concatenate(self._parts), self._channels)]
        self._rows = self._merged = len(self._parts[0])


def means_of(sums: Array, query: Means) -> Array:
    """Divide sums by their counts: `means_dtype(group)`, by instrument and time.

    sums: `sums_dtype(group)`, in any order, one row an instrument and step.
    """
    sums = sums[np.lexsort((sums["step"], sums["instrument"]))]
    answer = np.empty(len(sums), means_dtype(query.group))
    answer["instrument"], answer["count"] = sums["instrument"], sums["count"]
    answer["time_ns"] = starts_of(sums["step"], query.step_ns)
    for k, channel in enumerate(query.group.channels):
        answer[channel.name] = _quotient(sums[f"sum{k}"], sums[f"n{k}"])
    return answer


def starts_of(steps: Array, step_ns: int) -> Array:
    """When steps begin, int64 ns since 1970, by their numbers, int64; the first one of int64 with int64."""
    return np.where(steps < -(-LEAST_NS // step_ns), LEAST_NS, steps * np.int64(step_ns))


def sums_dtype(group: InstrumentGroup) -> np.dtype[Any]:
    """Sums of one instrument over one step: number of the step since 1970, readings, and by channel k `n`k and `sum`k.

    n is how many of its values are not NaN, sum is theirs.
    """
    return _sums_dtype(group.channels)


class AggregateReducer:
    """Makes the answer to `Aggregate`."""

    def __init__(self, query: Aggregate) -> None:
        self._group = query.group
        size = query.group.size
        self._count = np.zeros(size, np.int64)
        self._figures = {channel.name: _Figures(size) for channel in query.group.channels}

    def add(self, readings: Array) -> None:
        """Take readings: `answer_dtype(group)`, shape (n,), in any order."""
        if not len(readings):
            return
        instruments = readings["instrument"].astype(np.intp)
        self._count += np.bincount(instruments, minlength=self._group.size)
        for channel in self._group.channels:
            values = readings[channel.name].astype(np.float64)
            self._figures[channel.name].add(*_without_nan(instruments, values, channel))

    def answer(self) -> Array:
        """The figures so far: `aggregate_dtype(group)`, by instrument; one without readings is absent."""
        there = np.flatnonzero(self._count)
        answer = np.empty(len(there), aggregate_dtype(self._group))
        answer["instrument"], answer["count"] = there, self._count[there]
        for name, figures in self._figures.items():
            for figure, values in figures.values().items():
                answer[name][figure] = values[there]
        return answer


def newest_of_each(readings: Array) -> Array:
    """The newest reading of each instrument, by instrument; of one time that of the higher run and trigger.

    readings: `answer_dtype(group)`, in any order.
    """
    readings = readings[np.lexsort([readings[name] for name in ("trigger", "run", "time_ns", "instrument")])]
    last = np.ones(len(readings), bool)
    last[:-1] = readings["instrument"][1:] != readings["instrument"][:-1]
    return np.asarray(readings[last])


class Newest:
    """The newest reading of each instrument within the time of a `Snapshot`: `found`, `answer_dtype(group)`."""

    def __init__(self, query: Snapshot) -> None:
        self._query = query
        self.found = np.empty(0, answer_dtype(query.group))

    def add(self, readings: Array) -> None:
        """Take readings: `answer_dtype(group)`, shape (n,), in any order."""
        times, at_ns = readings["time_ns"], self._query.at_ns
        valid = readings[(times <= at_ns) & (times > at_ns - self._query.within_ns)]
        self.found = newest_of_each(np.concatenate([self.found, valid]))

    def missing(self, until_ns: int = LEAST_NS - 1) -> list[int]:
        """Instruments of which nothing was found that is later than a time."""
        found = self.found["instrument"][self.found["time_ns"] > until_ns]
        missing: list[int] = np.setdiff1d(np.arange(self._query.group.size), found).tolist()
        return missing


def reducer_of(query: Reduction) -> Reducer:
    """What makes the answer to a question."""
    return MeansReducer(query) if isinstance(query, Means) else AggregateReducer(query)


# --- how ------------------------------------------------------------------------------------------------------------


class _Figures:
    """Of one channel, by instrument."""

    def __init__(self, size: int) -> None:
        self._numbers = np.zeros(size, np.int64)
        self._sums = np.zeros(size)
        self._least = np.full(size, np.inf)
        self._greatest = np.full(size, -np.inf)

    def add(self, instruments: Array, values: Array) -> None:
        size = len(self._numbers)
        self._numbers += np.bincount(instruments, minlength=size)
        with np.errstate(invalid="ignore", over="ignore"):
            self._sums += np.bincount(instruments, values, size)
        np.minimum.at(self._least, instruments, values)
        np.maximum.at(self._greatest, instruments, values)

    def values(self) -> dict[str, Array]:
        there = self._numbers > 0
        return {
            "mean": _quotient(self._sums, self._numbers),
            "least": np.where(there, self._least, np.nan),
            "greatest": np.where(there, self._greatest, np.nan),
        }


def _sums_dtype(channels: Sequence[Channel]) -> np.dtype[Any]:
    figures = [(f"{name}{k}", form) for k in range(len(channels)) for name, form in (("n", "<i8"), ("sum", "<f8"))]
    return np.dtype([("instrument", "<i4"), ("step", "<i8"), ("count", "<i8"), *figures])


def _sums(readings: Array, steps: Array, channels: Sequence[Channel], instruments: int) -> Array:
    """Sum readings by instrument and step."""
    distinct, step = _numbered(steps, len(readings))
    cell = step * instruments + readings["instrument"]
    cells, cell = (
        _numbered(cell, len(readings)) if len(distinct) * instruments > DENSE * len(readings) else (None, cell)
    )
    size = len(distinct) * instruments if cells is None else len(cells)
    count = np.bincount(cell, minlength=size)
    at = np.flatnonzero(count)
    number = at if cells is None else cells[at]
    part = np.empty(len(at), _sums_dtype(channels))
    part["instrument"], part["step"], part["count"] = number % instruments, distinct[number // instruments], count[at]
    for k, channel in enumerate(channels):
        values = readings[channel.name].astype(np.float64)
        cells_of, valid = _without_nan(cell, values, channel)
        part[f"n{k}"] = count[at] if cells_of is cell else np.bincount(cells_of, minlength=size)[at]
        part[f"sum{k}"] = np.bincount(cells_of, valid, size)[at]
    return part


def _numbered(values: Array, readings: int) -> tuple[Array, Array]:
    """Number values, int64, in ascending order; return what a number stands for, and the number of each, intp.

    Where they lie close together all between the least and the greatest have a number: no sorting.
    """
    least, greatest = int(values.min()), int(values.max())
    if greatest - least < DENSE * readings:
        return np.arange(least, greatest + 1), (values - least).astype(np.intp)
    distinct, number = np.unique(values, return_inverse=True)
    return distinct, number


def _merged(parts: Array, channels: Sequence[Channel]) -> Array:
    """Add up sums of the same instrument and step."""
    if not len(parts):
        return parts
    parts = parts[np.lexsort((parts["step"], parts["instrument"]))]
    same = (parts["instrument"][1:] == parts["instrument"][:-1]) & (parts["step"][1:] == parts["step"][:-1])
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    merged = parts[first]
    for name in ("count", *(f"{figure}{k}" for k in range(len(channels)) for figure in ("n", "sum"))):
        with np.errstate(invalid="ignore", over="ignore"):
            merged[name] = np.add.reduceat(parts[name], first)
    return merged


def _without_nan(cells: Array, values: Array, channel: Channel) -> tuple[Array, Array]:
    """Leave out what is NaN; the same arrays where nothing is."""
    if not channel.is_float:
        return cells, values
    valid = ~np.isnan(values)
    return (cells, values) if valid.all() else (cells[valid], values[valid])


def _quotient(sums: Array, counts: Array) -> Array:
    quotients: Array = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return quotients

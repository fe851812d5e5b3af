"""What was measured of a run's visits, in memory: a numpy column a field, a visit an element.

Python objects of 100,000 visits would take hundreds of megabytes of the logger's process; these take a hundredth.
"""

from collections.abc import Mapping

import numpy as np

from schemas.api.visits import VisitMeasure
from schemas.readings import Array

MOST = 2**18
"""Visits that are held, 37 MB of them: at the paper's cadence a year. Of a longer run these are the last, and the CSV
has all."""
FIRST = 1024

_TYPES = {int: "<i8", float: "<f4", bool: "?"}
_WIDE = {"time_ns": "<i8", "ra": "<f8", "decl": "<f8"}
DTYPE = np.dtype(
    [
        (name, _WIDE.get(name) or _TYPES[field.annotation])  # type: ignore[index]
        for name, field in VisitMeasure.model_fields.items()
    ]
)
"""The fields of VisitMeasure; seconds as float32, which keeps them to a tenth of a microsecond."""


class Series:
    """Grows by a visit at a time."""

    def __init__(self) -> None:
        self._rows = np.empty(FIRST, DTYPE)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def rows(self) -> Array:
        """What is held, DTYPE, in the order it came; a view, which later visits leave as it is."""
        return self._rows[: self._n]

    def add(self, measure: VisitMeasure) -> None:
        """Take a visit."""
        if self._n == len(self._rows):
            self._make_room()
        self._rows[self._n] = tuple(measure.__dict__[name] for name in DTYPE.names or ())
        self._n += 1

    def take(self, rows: Array) -> None:
        """Take many: DTYPE, shape (visits,)."""
        kept = np.concatenate([self.rows, rows])[-MOST:]
        self._rows, self._n = kept, len(kept)

    def cut(self, visit: int) -> None:
        """Forget visits from one on; they are in order."""
        # A new array: whoever holds a view of the old one keeps what it saw.
        self._n = int(np.searchsorted(self.rows["visit"], visit))
        self._rows = self._rows.copy()

    def column(self, name: str) -> Array:
        """One field of all that is held."""
        return self.rows[name]

    def _make_room(self) -> None:
        # A new array each time: whoever holds a view of the old one keeps what it saw.
        kept = self.rows[self._n // 8 :] if self._n >= MOST else self.rows
        wider = np.empty(min(max(FIRST, 2 * self._n), MOST), DTYPE)
        wider[: len(kept)] = kept
        self._rows, self._n = wider, len(kept)


def measure_of(row: Array) -> VisitMeasure:
    """One element as what was measured."""
    return VisitMeasure(**dict(zip(DTYPE.names or (), row.tolist(), strict=True)))


def rows_of(columns: Mapping[str, Array]) -> Array:
    """Put columns together: DTYPE, shape (visits,)."""
    rows = np.empty(len(next(iter(columns.values()))), DTYPE)
    for name in DTYPE.names or ():
        rows[name] = columns[name]
    return rows

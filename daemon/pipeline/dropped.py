"""Periods of a group whose readings were dropped by retention, as the way of the data has to know them.

The ledger of such a period is whole: a reading that comes twice is found there as ever. What is missing there, and
comes now, has no place any more: it is set aside (`AsideReason.DROPPED`), since what is stored of a period would be a
part of it without the rest. Assembly does not know of that, and has it as arrived, also where the period stays after
all: what it says of such a time is believed no more.

Of a period that was reduced, too, the ledger is whole. What is missing there, and comes now, is stored; but with what
is there no more nothing can be compared: what the ledger has comes twice.
"""

from collections.abc import Iterable

import numpy as np

from schemas.readings import Array
from schemas.retention import Period, Span, are_within, spans_of


class DroppedPeriods:
    """The periods of one group that were dropped, or are about to be; and those that were, or are to be, reduced."""

    def __init__(self, periods: Iterable[Period] = (), reduced: Iterable[Period] = ()) -> None:
        self._periods = list(periods)
        self.spans: tuple[Span, ...] = spans_of(self._periods)
        self._doubted = self.spans
        self._reduced = spans_of(reduced)

    def reduce(self, periods: Iterable[Period]) -> None:
        """These are the periods that were reduced, or are about to be."""
        self._reduced = spans_of(periods)

    def add(self, period: Period) -> None:
        """From now on nothing of this period is stored."""
        self._periods.append(period)
        self.spans = spans_of(self._periods)
        self._doubt(period)

    def has(self, period: Period) -> bool:
        """Whether a period is one of them."""
        return period in self._periods

    def take_out(self, period: Period) -> None:
        """It stays after all; what came late for it meanwhile is set aside, and assembly has it as arrived."""
        self._periods.remove(period)
        self.spans = spans_of(self._periods)

    def have(self, times: Array) -> Array:
        """Which times (int64 ns, shape (n,)) are of a dropped period: bool, shape (n,)."""
        return are_within(self.spans, times)

    def have_less(self, times: Array) -> Array:
        """Which times (int64 ns, shape (n,)) are of a period of which not all is there: bool, shape (n,)."""
        return are_within((*self.spans, *self._reduced), times)

    def concern(self, times: Array) -> bool:
        """Whether any time (int64 ns, shape (n,)) is of a period of which assembly may say more than the ledger.

        It is, or was for a moment, one of them.
        """
        return bool(np.any(are_within(self._doubted, times)))

    def _doubt(self, stretch: Period | Span) -> None:
        self._doubted = spans_of([*self._doubted, stretch])

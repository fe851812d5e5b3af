"""Which periods that were reduced got readings since: as far as one store knows, of what it wrote itself."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from backends.base import StoreUnavailable
from schemas.batch import Batch, Layout
from schemas.decimation import Decimated
from schemas.readings import Array
from schemas.retention import Period, Span, are_within


class LateForReduced:
    """Which periods that were reduced a store has put readings into since."""

    def __init__(self) -> None:
        self._periods: dict[str, list[Period]] = {}
        self._under_way: list[Period] = []
        self._late: dict[str, set[str]] = {}

    def know(self, account: Iterable[Decimated]) -> None:
        """These are the periods, and those that are being reduced, whose account may not be there yet."""
        self._periods = {}
        for period in {*(each.period for each in account), *self._under_way}:
            self._periods.setdefault(period.group, []).append(period)

    @contextmanager
    def committed(self, batch: Batch, layout: Layout) -> Iterator[None]:
        """A batch is committed; where the database does not say so it may be there, and never be sent again."""
        try:
            yield
        except StoreUnavailable:
            self._note(batch, layout)
            raise
        self._note(batch, layout)

    @contextmanager
    def taken(self, period: Period) -> Iterator[None]:
        """A period is reduced: what comes from now on is late. Where that fails, what came before still is."""
        late = self._late.setdefault(period.group, set())
        late.discard(period.name)
        known = self._periods.setdefault(period.group, [])
        if period not in known:
            known.append(period)
        self._under_way.append(period)
        try:
            yield
        except BaseException:
            late.add(period.name)
            raise
        finally:
            self._under_way.remove(period)

    def of(self, group: str) -> frozenset[str]:
        """Names of the periods."""
        return frozenset(self._late.get(group, ()))

    def _note(self, batch: Batch, layout: Layout) -> None:
        periods = self._periods.get(batch.group.name)
        if not periods:
            return
        times = _times_of(batch, layout)
        if not times.size or times.min() >= max(period.end_ns for period in periods):
            return
        late = self._late.setdefault(batch.group.name, set())
        late |= {
            each.name for each in periods if are_within([Span(start_ns=each.start_ns, end_ns=each.end_ns)], times).any()
        }


def _times_of(batch: Batch, layout: Layout) -> Array:
    """Where the rows of a batch lie."""
    if layout is Layout.ARRAYS:
        times = [batch.ledger["time_ns"], batch.revised["time_ns"][batch.late_of]]
    else:
        times = [batch.readings["time_ns"][batch.present], batch.late["time_ns"]]
    return np.concatenate(times)

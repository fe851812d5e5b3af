"""All readings that were sent of a group, and by them what a store has to answer, computed from each of them."""

from collections.abc import Iterable
from enum import IntEnum

import numpy as np

from schemas.decimation import Decimated, Every, reduced_dtype
from schemas.ledger import pack_missing
from schemas.queries import Means, answer_dtype, means_dtype
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Period, Span, are_within, spans_of


class Fate(IntEnum):
    """What became of a reading that was sent."""

    COMMITTED = 0
    ASIDE = 1  # it came for a period that had been dropped
    REFUSED = 2  # by the database: a dead letter


def same(found: Array, wanted: Array) -> None:
    """See that readings, or ledger rows, are the same; one NaN is as another."""
    for name in wanted.dtype.names:
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


class Sent:
    """The readings of a group: `answer_dtype(group)`, with epochs as runs.

    rows_ns: where the row of each lies, which is its own time, or in the arrays layout that of its trigger. fates: a
    `Fate` each.
    """

    def __init__(self, group: InstrumentGroup) -> None:
        self.group = group
        self.readings = np.empty(0, answer_dtype(group))
        self.rows_ns = np.empty(0, np.int64)
        self.fates = np.empty(0, np.int8)

    def add(self, block: Array, rows_ns: Array, fates: Array) -> None:
        """Readings were sent: record dtype, shape (n,)."""
        more = np.empty(len(block), self.readings.dtype)
        more["run"] = block["epoch"]
        for name in more.dtype.names[1:]:
            more[name] = block[name]
        self.readings = np.concatenate([self.readings, more])
        self.rows_ns = np.concatenate([self.rows_ns, rows_ns])
        self.fates = np.concatenate([self.fates, fates.astype(np.int8)])

    def of(self, period: Period) -> Array:
        """Which readings were committed into a period: bool, shape (n,)."""
        within = (self.rows_ns >= period.start_ns) & (self.rows_ns < period.end_ns)
        return np.asarray(within & (self.fates == Fate.COMMITTED))

    def left(self, dropped: Iterable[Period]) -> Array:
        """Which readings were committed, and not dropped since: bool, shape (n,)."""
        left = self.fates == Fate.COMMITTED
        for period in dropped:
            left &= ~self.of(period)
        return np.asarray(left)

    def outlives(self, reduced: Iterable[Period], dropped: Iterable[Period]) -> Array:
        """Which readings are in figures though their period was dropped, since they lie beyond its end: bool.

        So do some of the arrays layout, whose rows lie where the first reading of a trigger does.
        """
        beyond = np.zeros(len(self.readings), bool)
        for period in reduced:
            beyond |= self.of(period) & (self.readings["time_ns"] >= period.end_ns)
        return np.asarray(beyond & ~are_within(spans_of(dropped), self.readings["time_ns"]))

    def may_be_reduced(self, reduced: Iterable[Decimated], windows: Iterable[Span]) -> Array:
        """Which readings need not be there as they were: bool, shape (n,). windows: what stays of each period."""
        may = np.zeros(len(self.readings), bool)
        for each in reduced:
            within = self.of(each.period)
            if isinstance(each.how, Every):
                within &= self.readings["trigger"] % each.how.n != 0
            may |= within
        return np.asarray(may & ~are_within(windows, self.rows_ns))

    def there(self, found: Array) -> Array:
        """Which readings are among those that a store has: bool, shape (n,).

        found: `answer_dtype(group)`, with epochs as runs; each has to be one that was sent, as it was, and no other.
        """
        keys, theirs = self._keys(self.readings), self._keys(found)
        order = np.argsort(keys)
        at = order[np.minimum(np.searchsorted(keys[order], theirs), len(keys) - 1)]
        same(found, self.readings[at])
        assert len(np.unique(at)) == len(at), "a reading is there twice"
        there = np.zeros(len(keys), bool)
        there[at] = True
        return there

    def ledger(self) -> tuple[Array, Array, Array]:
        """What the ledger has to say: run and trigger of each row, in order, and its missing bitmap."""
        stored = self.readings[self.fates == Fate.COMMITTED]
        numbers, of = np.unique((stored["run"].astype(np.int64) << 48) + stored["trigger"], return_inverse=True)
        present = np.zeros((len(numbers), self.group.size), bool)
        present[of, stored["instrument"]] = True
        return numbers >> 48, numbers & (2**48 - 1), pack_missing(present)

    def figures(self, of: Array, bucket_ns: int) -> Array:
        """Figures of readings: `reduced_dtype(group)`, by time and instrument. of: which, bool, shape (n,)."""
        readings = self.readings[of]
        steps = _Steps(readings, bucket_ns, "time_ns")
        found = steps.answer(reduced_dtype(self.group))
        found["readings"] = steps.sums(np.ones(len(readings)))
        for channel in self.group.channels:
            values = readings[channel.name].astype(np.float64)
            figures, is_value = found[channel.name], ~np.isnan(values)
            figures["n"] = steps.sums(is_value)
            figures["mean"] = mean = steps.means(values)
            figures["m2"] = steps.sums(np.where(is_value, (values - mean[steps.of]) ** 2, 0.0))
            figures["least"], figures["greatest"] = steps.ends(np.fmin, values), steps.ends(np.fmax, values)
        return found

    def means(self, of: Array, query: Means) -> Array:
        """The answer to `Means` by single readings: `means_dtype(group)`. of: which, bool, shape (n,)."""
        times = self.readings["time_ns"]
        readings = self.readings[of & (times >= query.start_ns) & (times < query.end_ns)]
        steps = _Steps(readings, query.step_ns, "instrument")
        found = steps.answer(means_dtype(self.group))
        found["count"] = steps.sums(np.ones(len(readings)))
        for channel in self.group.channels:
            found[channel.name] = steps.means(readings[channel.name].astype(np.float64))
        return found

    def _keys(self, readings: Array) -> Array:
        """A number for each reading, by run, trigger and instrument."""
        number = readings["trigger"] * self.group.size + readings["instrument"]
        return np.asarray((readings["run"].astype(np.int64) << 48) + number)


class _Steps:
    """Readings by step of time and instrument. of: the step of each reading.

    first: by which of the two they are ordered.
    """

    def __init__(self, readings: Array, step_ns: int, first: str) -> None:
        numbers, instruments = readings["time_ns"] // step_ns, readings["instrument"].astype(np.int64)
        least = numbers.min(initial=0)
        places = numbers - least, instruments
        major, minor = places if first == "time_ns" else places[::-1]
        # As one number each, which is sorted ten times as fast.
        wide = int(minor.max(initial=0)) + 1
        found, self.of = np.unique(major * wide + minor, return_inverse=True)
        places = found // wide, found % wide
        steps, self._instruments = places if first == "time_ns" else places[::-1]
        self._times = (steps + least) * step_ns

    def answer(self, form: "np.dtype[np.void]") -> Array:
        found = np.zeros(len(self._times), form)
        found["time_ns"], found["instrument"] = self._times, self._instruments
        return found

    def sums(self, values: Array) -> Array:
        return np.bincount(self.of, values, len(self._times))

    def means(self, values: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return np.asarray(self.sums(np.nan_to_num(values)) / self.sums(~np.isnan(values)))

    def ends(self, lesser: np.ufunc, values: Array) -> Array:
        found = np.full(len(self._times), np.nan)
        lesser.at(found, self.of, values)
        return found

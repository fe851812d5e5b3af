"""Readings to figures of buckets, and figures of the same buckets to one: pure numpy, no Python object a reading.

Figures of parts are put together so that it makes no difference in which parts readings came, but for the rounding:
Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37 (1983). NaN is no
value: it counts as a reading, and not in the figures. An infinite value makes the mean what the sum of the values
divided by their number is, and m2 NaN.
"""

from collections.abc import Sequence

import numpy as np

from schemas.decimation import reduced_dtype
from schemas.readings import Array, Channel, InstrumentGroup

LEAST_NS = -(2**63)


def figures_of(readings: Array, group: InstrumentGroup, bucket_ns: int) -> Array:
    """Figures of readings: `reduced_dtype(group)`, by time and instrument, a row a bucket and instrument.

    readings: `answer_dtype(group)`, shape (n,), in any order. The first bucket of int64 begins with int64.
    """
    numbers = readings["time_ns"] // bucket_ns
    order = np.lexsort((readings["instrument"], numbers))
    readings, numbers = readings[order], numbers[order]
    first = _firsts(numbers, readings["instrument"])
    found = np.empty(len(first), reduced_dtype(group))
    if not len(first):
        return found
    found["time_ns"] = _starts(numbers[first], bucket_ns)
    found["instrument"] = readings["instrument"][first]
    sizes = np.diff(np.append(first, len(readings)))
    found["readings"] = sizes
    for channel in group.channels:
        _fill(found[channel.name], readings[channel.name], first, sizes, channel)
    return found


def together(parts: Sequence[Array], group: InstrumentGroup) -> Array:
    """Figures of parts as those of the whole: `reduced_dtype(group)`, by time and instrument, each bucket once.

    parts: `reduced_dtype(group)`, in any order, of buckets of one length.
    """
    rows = np.concatenate([np.empty(0, reduced_dtype(group)), *parts])
    rows = rows[np.lexsort((rows["instrument"], rows["time_ns"]))]
    first = _firsts(rows["time_ns"], rows["instrument"])
    found = rows[first]
    if len(first) == len(rows):
        return found
    sizes = np.diff(np.append(first, len(rows)))
    found["readings"] = np.add.reduceat(rows["readings"], first)
    for channel in group.channels:
        _fill_together(found[channel.name], rows[channel.name], first, sizes, channel)
    return found


def _firsts(*keys: Array) -> Array:
    """Where each new key begins, of keys in order."""
    if not len(keys[0]):
        return np.empty(0, np.intp)
    differs = np.zeros(len(keys[0]) - 1, bool)
    for key in keys:
        differs |= key[1:] != key[:-1]
    return np.flatnonzero(np.concatenate([[True], differs]))


def _starts(numbers: Array, bucket_ns: int) -> Array:
    return np.where(numbers < -(-LEAST_NS // bucket_ns), LEAST_NS, numbers * np.int64(bucket_ns))


def _fill(figures: Array, values: Array, first: Array, sizes: Array, channel: Channel) -> None:
    """The figures of one channel; values in order, where those of bucket k begin at first[k], sizes[k] of them."""
    _fill_ends(figures, values, values, first, channel)
    valid = ~np.isnan(values) if channel.is_float else np.ones(len(values), bool)
    figures["n"] = np.add.reduceat(valid, first, dtype=np.int64)
    exact = np.where(valid, values, 0).astype(np.float64)
    with np.errstate(all="ignore"):
        mean = np.add.reduceat(exact, first) / figures["n"]
        rest = np.where(valid, exact - np.repeat(mean, sizes), 0.0)
        # What the rounding of the sum has left over.
        over = np.add.reduceat(rest, first)
        squares = np.add.reduceat(rest * rest, first)
        figures["m2"] = np.maximum(squares - over * over / np.maximum(figures["n"], 1), 0.0)
        figures["mean"] = np.where(np.isfinite(mean), mean + over / figures["n"], mean)


def _fill_together(figures: Array, parts: Array, first: Array, sizes: Array, channel: Channel) -> None:
    """The figures of one channel of parts, in the same order as the values in `_fill`."""
    _fill_ends(figures, parts["least"], parts["greatest"], first, channel)
    numbers = np.add.reduceat(parts["n"], first)
    there = parts["n"] > 0
    means = np.where(there, parts["mean"], 0.0)
    with np.errstate(all="ignore"):
        # Weighed around the first mean that is there: means that are alike keep all of their digits.
        about = means[_first_there(there, first)]
        around = np.repeat(about, sizes)
        mean = about + np.add.reduceat(np.where(there, parts["n"] * (means - around), 0.0), first) / numbers
        plain = np.add.reduceat(parts["n"] * means, first) / numbers
        mean = np.where(np.isfinite(mean), mean, plain)
        apart = np.where(there, means - np.repeat(mean, sizes), 0.0)
        squares = np.add.reduceat(parts["m2"] + parts["n"] * apart * apart, first)
    figures["n"], figures["m2"] = numbers, np.where(numbers > 0, squares, 0.0)
    figures["mean"] = np.where(numbers > 0, mean, np.nan)


def _first_there(there: Array, first: Array) -> Array:
    """The first place of each stretch where something is there, its beginning where nothing is; intp."""
    places = np.where(there, np.arange(len(there)), len(there))
    found = np.minimum.reduceat(places, first)
    return np.where(found < len(there), found, first)


def _fill_ends(figures: Array, least: Array, greatest: Array, first: Array, channel: Channel) -> None:
    lesser, greater = (np.fmin, np.fmax) if channel.is_float else (np.minimum, np.maximum)
    figures["least"], figures["greatest"] = lesser.reduceat(least, first), greater.reduceat(greatest, first)

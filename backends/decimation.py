"""Reducing readings, without a database: readings go in, figures of buckets come out, and figures are put together.

Figures of parts are put together so that it makes no difference in which parts readings came, but for the rounding:
Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37 (1983). NaN is no
value: it counts as a reading, and not in the figures. An infinite value makes the mean what the sum of the values
divided by their number is, and m2 NaN.

Where readings were reduced, figures of buckets are put together with those of the readings that stayed. A step there
is the one that was asked for if the bucket divides it, else the next multiple of the bucket. Stretches begin and end
with a step, so that no step is answered from two sides.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from backends.columns.stored import SLACK_NS
from schemas.batch import Layout
from schemas.decimation import Bucket, Decimated, reduced_dtype
from schemas.queries import Figures, Means, figures_dtype, means_dtype
from schemas.readings import Array, Channel, InstrumentGroup
from schemas.retention import spans_of

FIRST_NS = -(2**63)


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
    """Return where each new key begins, of keys in order."""
    if not len(keys[0]):
        return np.empty(0, np.intp)
    differs = np.zeros(len(keys[0]) - 1, bool)
    for key in keys:
        differs |= key[1:] != key[:-1]
    return np.flatnonzero(np.concatenate([[True], differs]))


def _starts(numbers: Array, bucket_ns: int) -> Array:
    return np.where(numbers < -(-FIRST_NS // bucket_ns), FIRST_NS, numbers * np.int64(bucket_ns))


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


LAST_NS = 2**63 - 1
LEAST_NS = 60_000_000_000
"""A part of a stretch is as long as this at least, however short its buckets are."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A part of the time that is asked about, of which readings were reduced: start_ns <= time_ns < end_ns.

    step_ns: of the answer. bucket_ns: the shortest of the buckets that are there. whole_ns: what all of them divide.
    """

    start_ns: int
    end_ns: int
    step_ns: int
    bucket_ns: int
    whole_ns: int


def stretches_of(account: Iterable[Decimated], query: Means | Figures, beyond_ns: int = 0) -> list[Stretch]:
    """Return what was reduced of the time that a question is about: ascending, none touching another.

    beyond_ns: so far beyond a period may readings of it lie, by their own times, whose figures are there, too.
    """
    found: list[Stretch] = []
    for each in sorted(account, key=lambda each: each.period.start_ns):
        start_ns, end_ns = each.period.start_ns - beyond_ns, each.period.end_ns + beyond_ns
        if isinstance(each.how, Bucket) and start_ns < query.end_ns and end_ns > query.start_ns:
            bucket_ns = each.how.ns
            step_ns = _step_ns(query, bucket_ns)
            one = Stretch(start_ns=start_ns, end_ns=end_ns, step_ns=step_ns, bucket_ns=bucket_ns, whole_ns=bucket_ns)
            found = _with(found, one, query)
    return [_clipped(each, query) for each in found]


def between(query: Means, stretches: Iterable[Stretch]) -> Iterator[Means]:
    """Return what is left of a question beside its stretches."""
    start_ns = query.start_ns
    for each in stretches:
        if each.start_ns > start_ns:
            yield replace(query, start_ns=start_ns, end_ns=each.start_ns)
        start_ns = each.end_ns
    if query.end_ns > start_ns:
        yield replace(query, start_ns=start_ns)


def without_raw(stretch: Stretch, account: Iterable[Decimated]) -> Iterator[Stretch]:
    """Return what of a stretch was reduced: its steps at the ends reach into what was not."""
    for span in spans_of(each.period for each in account if isinstance(each.how, Bucket)):
        if span.start_ns < stretch.end_ns and span.end_ns > stretch.start_ns:
            start_ns, end_ns = max(span.start_ns, stretch.start_ns), min(span.end_ns, stretch.end_ns)
            yield replace(stretch, start_ns=start_ns, end_ns=end_ns)


def parts_of(stretch: Stretch, buckets: int) -> Iterator[tuple[int, int]]:
    """A stretch in parts of about so many buckets, or of `LEAST_NS`, each of whole buckets: start_ns and end_ns."""
    bucket_ns = stretch.bucket_ns
    length_ns = max(buckets, -(-LEAST_NS // bucket_ns)) * bucket_ns
    start_ns = stretch.start_ns
    while start_ns < stretch.end_ns:
        end_ns = min((start_ns // length_ns + 1) * length_ns, stretch.end_ns)
        yield start_ns, end_ns
        start_ns = end_ns


def in_steps(figures: Array, group: InstrumentGroup, step_ns: int) -> Array:
    """Figures of longer buckets: `reduced_dtype(group)`. step_ns: a multiple of the buckets of the figures."""
    longer = figures.copy()
    longer["time_ns"] = figures["time_ns"] // step_ns * step_ns
    return together([longer], group)


def with_step(figures: Array, group: InstrumentGroup, step_ns: int) -> Array:
    """Figures and how long their steps are: `figures_dtype(group)`, in their order."""
    answer = np.empty(len(figures), figures_dtype(group))
    answer["step_ns"] = step_ns
    for name in figures.dtype.names or ():
        answer[name] = figures[name]
    return answer


def means_of(figures: Array, group: InstrumentGroup) -> Array:
    """The means of figures: `means_dtype(group)`, in their order."""
    answer = np.empty(len(figures), means_dtype(group))
    answer["instrument"], answer["time_ns"] = figures["instrument"], figures["time_ns"]
    answer["count"] = figures["readings"]
    for channel in group.channels:
        answer[channel.name] = figures[channel.name]["mean"]
    return answer


def _clipped(stretch: Stretch, query: Means | Figures) -> Stretch:
    """Return what of a stretch is asked about; of figures each step as a whole of which a part is."""
    start_ns, end_ns, step_ns = query.start_ns, query.end_ns, stretch.step_ns
    if isinstance(query, Figures):
        start_ns, end_ns = start_ns // step_ns * step_ns, -(-end_ns // step_ns) * step_ns
    return replace(stretch, start_ns=max(stretch.start_ns, start_ns), end_ns=min(stretch.end_ns, end_ns))


def _step_ns(query: Means | Figures, whole_ns: int) -> int:
    """The step that was asked for, or the next multiple of what has to divide it; one that int64 holds."""
    return min(-(-query.step_ns // whole_ns), LAST_NS // whole_ns) * whole_ns


def _with(found: list[Stretch], each: Stretch, query: Means | Figures) -> list[Stretch]:
    """One more stretch, with whole steps at its ends; those that it reaches into become one with it."""
    step_ns = each.step_ns
    each = replace(each, start_ns=each.start_ns // step_ns * step_ns, end_ns=-(-each.end_ns // step_ns) * step_ns)
    if (
        not found
        or found[-1].end_ns < each.start_ns
        or (found[-1].end_ns == each.start_ns and found[-1].step_ns != step_ns)
    ):
        return [*found, each]
    last = found[-1]
    # Of the buckets, which divide a day. What the steps of both divide may be a thousand years.
    whole_ns = math.lcm(last.whole_ns, each.whole_ns)
    both = Stretch(
        start_ns=min(last.start_ns, each.start_ns),
        end_ns=max(last.end_ns, each.end_ns),
        step_ns=_step_ns(query, whole_ns),
        bucket_ns=min(last.bucket_ns, each.bucket_ns),
        whole_ns=whole_ns,
    )
    return _with(found[:-1], both, query)


OfStretch = Callable[[Stretch], Awaitable[Array]]
"""Gives the figures of a stretch in its steps, of all its readings: `reduced_dtype(group)`, by time and instrument."""


async def means_across(
    query: Means,
    account: Iterable[Decimated],
    layout: Layout,
    *,
    raw: Callable[[Means], Awaitable[Array]],
    of_stretch: OfStretch,
) -> Array:
    """Answer `Means`.

    account, layout: of the group. raw: answers of readings that are there.
    """
    # Arrays are reduced by the time of their trigger, and each of their readings belongs to the bucket of its own.
    stretches = stretches_of(account, query, SLACK_NS if layout is Layout.ARRAYS else 0)
    if not stretches:
        return await raw(query)
    parts = [await raw(part) for part in between(query, stretches)]
    parts += [means_of(await of_stretch(each), query.group) for each in stretches]
    whole = np.concatenate(parts)
    return whole[np.lexsort((whole["time_ns"], whole["instrument"]))]


async def figures_across(query: Figures, account: Iterable[Decimated], *, of_stretch: OfStretch) -> Array:
    """Answer `Figures`; of_stretch: of the instrument alone that is asked about."""
    account = list(account)
    parts = [np.empty(0, figures_dtype(query.group))]
    for each in stretches_of(account, query):
        found = [await of_stretch(part) for part in without_raw(each, account)]
        parts.append(with_step(together(found, query.group), query.group, each.step_ns))
    return np.concatenate(parts)

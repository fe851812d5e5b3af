"""Figures across readings that are there and those that were reduced: which stretches are answered from what.

Where readings were reduced, figures of buckets are put together with those of the readings that stayed. A step there
is the one that was asked for if the bucket divides it, else the next multiple of the bucket. Stretches begin and end
with a step, so that no step is answered from two sides. Pure: no I/O.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from backends.decimation.figures import together
from schemas.decimation import Bucket, Decimated
from schemas.queries import Figures, Means, figures_dtype, means_dtype
from schemas.readings import Array, InstrumentGroup
from schemas.retention import spans_of

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
    """What was reduced of the time that a question is about: ascending, none touching another.

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
    """What is left of a question beside its stretches."""
    start_ns = query.start_ns
    for each in stretches:
        if each.start_ns > start_ns:
            yield replace(query, start_ns=start_ns, end_ns=each.start_ns)
        start_ns = each.end_ns
    if query.end_ns > start_ns:
        yield replace(query, start_ns=start_ns)


def without_raw(stretch: Stretch, account: Iterable[Decimated]) -> Iterator[Stretch]:
    """What of a stretch was reduced: its steps at the ends reach into what was not."""
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
    """What of a stretch is asked about; of figures each step as a whole of which a part is."""
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

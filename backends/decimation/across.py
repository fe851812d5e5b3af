"""Means across readings that are there and those that were reduced: which stretches are answered from what.

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
from schemas.queries import Means, means_dtype
from schemas.readings import Array, InstrumentGroup


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A part of the time that is asked about, of which readings were reduced: start_ns <= time_ns < end_ns."""

    start_ns: int
    end_ns: int
    step_ns: int


def stretches_of(account: Iterable[Decimated], query: Means, beyond_ns: int = 0) -> list[Stretch]:
    """What was reduced of the time that a question is about: ascending, none touching another.

    beyond_ns: so far beyond a period may readings of it lie, by their own times, whose figures are there, too.
    """
    found: list[Stretch] = []
    for each in sorted(account, key=lambda each: each.period.start_ns):
        start_ns, end_ns = each.period.start_ns - beyond_ns, each.period.end_ns + beyond_ns
        if isinstance(each.how, Bucket) and start_ns < query.end_ns and end_ns > query.start_ns:
            step_ns = -(-query.step_ns // each.how.ns) * each.how.ns
            found = _with(found, Stretch(start_ns=start_ns, end_ns=end_ns, step_ns=step_ns))
    return [
        replace(each, start_ns=max(each.start_ns, query.start_ns), end_ns=min(each.end_ns, query.end_ns))
        for each in found
    ]


def between(query: Means, stretches: Iterable[Stretch]) -> Iterator[Means]:
    """What is left of a question beside its stretches."""
    start_ns = query.start_ns
    for each in stretches:
        if each.start_ns > start_ns:
            yield replace(query, start_ns=start_ns, end_ns=each.start_ns)
        start_ns = each.end_ns
    if query.end_ns > start_ns:
        yield replace(query, start_ns=start_ns)


def in_steps(figures: Array, group: InstrumentGroup, step_ns: int) -> Array:
    """Figures of longer buckets: `reduced_dtype(group)`. step_ns: a multiple of the buckets of the figures."""
    longer = figures.copy()
    longer["time_ns"] = figures["time_ns"] // step_ns * step_ns
    return together([longer], group)


def means_of(figures: Array, group: InstrumentGroup) -> Array:
    """The means of figures: `means_dtype(group)`, in their order."""
    answer = np.empty(len(figures), means_dtype(group))
    answer["instrument"], answer["time_ns"] = figures["instrument"], figures["time_ns"]
    answer["count"] = figures["readings"]
    for channel in group.channels:
        answer[channel.name] = figures[channel.name]["mean"]
    return answer


def _with(found: list[Stretch], each: Stretch) -> list[Stretch]:
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
    both = Stretch(
        start_ns=min(last.start_ns, each.start_ns),
        end_ns=max(last.end_ns, each.end_ns),
        step_ns=math.lcm(last.step_ns, step_ns),
    )
    return _with(found[:-1], both)

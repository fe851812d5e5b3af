"""Answers across readings that are there and those that were reduced, whatever the database."""

from collections.abc import Awaitable, Callable, Iterable

import numpy as np

from backends.columns.stored import SLACK_NS
from backends.decimation.across import Stretch, between, means_of, stretches_of, with_step, without_raw
from backends.decimation.figures import together
from schemas.batch import Layout
from schemas.decimation import Decimated
from schemas.queries import Figures, Means, figures_dtype
from schemas.readings import Array

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

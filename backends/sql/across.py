"""Figures across readings that are there and those that were reduced, asked of a SQL database within one snapshot."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import numpy as np

from backends.columns.stored import SLACK_NS
from backends.columns.windows import between as readings_between
from backends.decimation.across import (
    Stretch,
    between,
    in_steps,
    means_of,
    parts_of,
    stretches_of,
    with_step,
    without_raw,
)
from backends.decimation.figures import figures_of, together
from schemas.batch import Layout
from schemas.decimation import Decimated
from schemas.queries import Figures, Means, figures_dtype
from schemas.readings import Array

Use = Callable[[Array], None]
Readings = Callable[[Means, Use], Awaitable[None]]
Reduced = Callable[[int, int], Awaitable[Array]]

ROWS = 200_000
"""About so many figures are asked for at once, of whatever buckets the steps are made."""


async def means_across(
    query: Means,
    account: Iterable[Decimated],
    layout: Layout,
    *,
    raw: Callable[[Means], Awaitable[Array]],
    readings: Readings,
    reduced: Reduced,
) -> Array:
    """Answer `Means`.

    account, layout: of the group. raw: answers of readings that are there. readings: hands on, in chunks, all readings
    of the rows that may have some in the time of a question. reduced: figures of buckets that begin within a stretch of
    time.
    """
    # Arrays are reduced by the time of their trigger, and each of their readings belongs to the bucket of its own.
    stretches = stretches_of(account, query, SLACK_NS if layout is Layout.ARRAYS else 0)
    if not stretches:
        return await raw(query)
    parts = [await raw(part) for part in between(query, stretches)]
    parts += [means_of(await _figures(query, each, readings, reduced), query.group) for each in stretches]
    whole = np.concatenate(parts)
    return whole[np.lexsort((whole["time_ns"], whole["instrument"]))]


async def figures_across(
    query: Figures, account: Iterable[Decimated], *, readings: Readings, reduced: Reduced
) -> Array:
    """Answer `Figures`; see `means_across`. reduced: of the instrument alone that is asked about."""
    account = list(account)
    parts = [np.empty(0, figures_dtype(query.group))]
    for each in stretches_of(account, query):
        found = [await _figures(query, part, readings, reduced) for part in without_raw(each, account)]
        parts.append(with_step(together(found, query.group), query.group, each.step_ns))
    return np.concatenate(parts)


async def _figures(query: Means | Figures, stretch: Stretch, readings: Readings, reduced: Reduced) -> Array:
    """The figures of a stretch, in its steps: `reduced_dtype(group)`, by time and instrument."""
    group, step_ns = query.group, stretch.step_ns
    instrument = query.instrument if isinstance(query, Figures) else None
    found = []
    for start_ns, end_ns in parts_of(stretch, ROWS // (group.size if instrument is None else 1)):
        found.append(await asyncio.to_thread(in_steps, await reduced(start_ns, end_ns), group, step_ns))
    figures = await asyncio.to_thread(together, found, group)

    def add(some: Array) -> None:
        nonlocal figures
        within = readings_between(some, stretch.start_ns, stretch.end_ns)
        if instrument is not None:
            within = within[within["instrument"] == instrument]
        figures = together([figures, figures_of(within, group, step_ns)], group)

    await readings(Means(group=group, start_ns=stretch.start_ns, end_ns=stretch.end_ns, step_ns=step_ns), add)
    return figures

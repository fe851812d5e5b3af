"""Means across readings that are there and those that were reduced, asked of a SQL database within one snapshot."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import numpy as np

from backends.columns.stored import SLACK_NS
from backends.columns.windows import between as readings_between
from backends.decimation.across import Stretch, between, in_steps, means_of, stretches_of
from backends.decimation.figures import figures_of, together
from schemas.batch import Layout
from schemas.decimation import Decimated
from schemas.queries import Means
from schemas.readings import Array

Use = Callable[[Array], None]


async def means_across(
    query: Means,
    account: Iterable[Decimated],
    layout: Layout,
    *,
    raw: Callable[[Means], Awaitable[Array]],
    readings: Callable[[Means, Use], Awaitable[None]],
    reduced: Callable[[int, int], Awaitable[Array]],
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
    parts += [await _means_of(query, each, readings, await reduced(each.start_ns, each.end_ns)) for each in stretches]
    whole = np.concatenate(parts)
    return whole[np.lexsort((whole["time_ns"], whole["instrument"]))]


async def _means_of(
    query: Means, stretch: Stretch, readings: Callable[[Means, Use], Awaitable[None]], reduced: Array
) -> Array:
    """The means of a stretch, by instrument and time."""
    group, step_ns = query.group, stretch.step_ns
    figures = await asyncio.to_thread(in_steps, reduced, group, step_ns)

    def add(found: Array) -> None:
        nonlocal figures
        within = readings_between(found, stretch.start_ns, stretch.end_ns)
        figures = together([figures, figures_of(within, group, step_ns)], group)

    part = Means(group=group, start_ns=stretch.start_ns, end_ns=stretch.end_ns, step_ns=step_ns)
    await readings(part, add)
    return means_of(figures[np.lexsort((figures["time_ns"], figures["instrument"]))], group)

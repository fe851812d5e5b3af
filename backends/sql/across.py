"""Figures of a stretch of which readings were reduced, asked of a SQL database within one snapshot."""

import asyncio
from collections.abc import Awaitable, Callable

from backends.columns.windows import between as readings_between
from backends.decimation.across import Stretch, in_steps, parts_of
from backends.decimation.figures import figures_of, together
from schemas.queries import Figures, Means
from schemas.readings import Array

Use = Callable[[Array], None]
Readings = Callable[[Means, Use], Awaitable[None]]
Reduced = Callable[[int, int], Awaitable[Array]]

ROWS = 200_000
"""About so many figures are asked for at once, of whatever buckets the steps are made."""


async def figures_of_stretch(query: Means | Figures, stretch: Stretch, readings: Readings, reduced: Reduced) -> Array:
    """The figures of a stretch, in its steps: `reduced_dtype(group)`, by time and instrument.

    readings: hands on, in chunks, all readings of the rows that may have some in the time of a question. reduced:
    figures of buckets that begin within a stretch of time, of the instrument alone that is asked about.
    """
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

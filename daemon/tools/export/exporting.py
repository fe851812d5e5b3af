"""Runs an export: queries, selects and writes."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, closing
from dataclasses import dataclass, replace

import numpy as np

from backends.base import Decimating, Store
from backends.columns.figuring import Figuring
from backends.decimation.across import parts_of, stretches_of
from daemon.tools.export.about import About, ReducedAbout, Writer
from daemon.tools.export.windows import AIM_BYTES, windows
from schemas.queries import Figures
from schemas.readings import Array
from schemas.retention import overlapping, spans_of

ROWS = 2**18
"""Readings that are written at once at least, except the last ones: small parts compress badly."""

Progress = Callable[[float, int], None]
"""Called with the fraction of the span that is done (0 to 1), and the readings written so far."""


@dataclass(kw_only=True)
class Written:
    """What was written: how many readings, and the times of the first and the last (ns since 1970-01-01 UTC).

    figures: rows of figures of what was reduced.
    """

    readings: int = 0
    figures: int = 0
    first_ns: int = 2**63 - 1
    last_ns: int = -(2**63)

    def add(self, readings: Array) -> None:
        """Count readings."""
        if len(readings):
            self.readings += len(readings)
            self.first_ns = min(self.first_ns, int(readings["time_ns"].min()))
            self.last_ns = max(self.last_ns, int(readings["time_ns"].max()))


async def export(
    store: Store, about: About, writer: Writer, progress: Progress, *, aim_bytes: int = AIM_BYTES
) -> Written:
    """Write the chosen readings; while one part is written the next is queried.

    Raises:
        StoreError: the database does not answer.
        OSError: the file cannot be written.
        PayloadUnusable: a calibration that is needed cannot be used.
    """
    choice, span = about.choice, about.span
    written, gathered, count = Written(), list[Array](), 0
    background = BackgroundWriter(writer)
    try:
        async with aclosing(windows(store, choice.group, span, aim_bytes=aim_bytes)) as found:
            async for window in found:
                chosen = choice.of(window.readings)
                written.add(chosen)
                gathered.append(chosen)
                count += len(chosen)
                if count >= ROWS:
                    await background.write(await _with_positions(about, np.concatenate(gathered)))
                    gathered, count = [], 0
                progress((window.end_ns - span.start_ns) / (span.end_ns - span.start_ns), written.readings)
        if count:
            await background.write(await _with_positions(about, np.concatenate(gathered)))
    finally:
        await background.done()
    return written


async def export_figures(store: Store, about: About, writer_of: Callable[[ReducedAbout], Writer]) -> int:
    """Write figures of what was reduced of the span; how many. Without any no writer is made.

    To be called after the readings were read: what is reduced meanwhile has figures then, and no reading is missing.
    Figures are of whole buckets of all readings; what is chosen by run or trigger, which they do not know, has none.

    Raises:
        StoreError: the database does not answer.
        OSError: the file cannot be written.
    """
    choice, span = about.choice, about.span
    group = choice.group
    if choice.run is not None or not (isinstance(store, Decimating) and isinstance(store, Figuring)):
        return 0
    account = (await store.decimated())[group.name]
    stretches = stretches_of(account, Figures(group=group, start_ns=span.start_ns, end_ns=span.end_ns, step_ns=1))
    if not stretches:
        return 0
    decimated = overlapping(spans_of(each.period for each in account), span.start_ns, span.end_ns)
    written = 0
    with closing(writer_of(ReducedAbout(readings=replace(about, decimated=decimated)))) as writer:
        for stretch in stretches:
            for start_ns, end_ns in parts_of(stretch, ROWS // group.size):
                figures = await store.figures(Figures(group=group, start_ns=start_ns, end_ns=end_ns, step_ns=1))
                if choice.instruments is not None:
                    figures = figures[np.isin(figures["instrument"], choice.instruments)]
                await asyncio.to_thread(writer.write, figures)
                written += len(figures)
    return written


async def _with_positions(about: About, readings: Array) -> Array:
    """Readings with what a calibration adds to them."""
    return readings if about.calibration is None else await about.calibration.with_positions(readings)


class BackgroundWriter:
    """Writes one part at a time in a thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._writing: asyncio.Task[None] | None = None

    async def write(self, block: Array) -> None:
        """Start to write a part, once the one before is written."""
        await self.done()
        self._writing = asyncio.create_task(asyncio.to_thread(self._writer.write, block))

    async def done(self) -> None:
        """Wait until all is written, also when cancelled: a thread goes on, and the file must not close below it."""
        if self._writing is not None:
            await asyncio.wait({self._writing})
            writing, self._writing = self._writing, None
            writing.result()

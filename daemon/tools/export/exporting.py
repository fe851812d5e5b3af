"""Runs an export: queries, selects, writes, and leaves either a whole file or none."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backends.base import Store
from daemon.tools.export.about import About, Writer
from daemon.tools.export.windows import AIM_BYTES, windows
from schemas.readings import Array

ROWS = 2**18
"""Readings that are written at once at least, except the last ones: small parts compress badly."""

Progress = Callable[[float, int], None]
"""Called with the fraction of the span that is done (0 to 1), and the readings written so far."""


@dataclass(kw_only=True)
class Written:
    """The content of a file: how many readings, and the times of the first and the last (ns since 1970-01-01 UTC)."""

    readings: int = 0
    first_ns: int = 2**63 - 1
    last_ns: int = -(2**63)

    def add(self, readings: Array) -> None:
        """Count readings."""
        if len(readings):
            self.readings += len(readings)
            self.first_ns = min(self.first_ns, int(readings["time_ns"].min()))
            self.last_ns = max(self.last_ns, int(readings["time_ns"].max()))


@contextmanager
def whole_or_none(path: Path) -> Iterator[Path]:
    """Give a path to write to; the file gets its name once it is on the disk, and is removed after an error."""
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            part.unlink()
        raise


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

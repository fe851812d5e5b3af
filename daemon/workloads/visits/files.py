"""Files of a kept run that others take away: the CSV, the Parquet file, the report."""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from daemon.core.process.children import Child
from daemon.workloads.visits.kept import UNTOLD, Kept

LEAST_LINE = 2**16
PIECE = 2**20


class NotMade(Exception):
    """A file cannot be made; the message is one line that says why."""


class Files:
    """Each is made by a process of its own, one at a time: their libraries and their work stay out of the logger."""

    def __init__(self, kept: Callable[[], Kept], in_use: Callable[[], str | None]) -> None:
        """kept: where. in_use: id of the run that is under way."""
        self._kept = kept
        self._in_use = in_use
        self._making = asyncio.Lock()

    async def csv(self, name: str) -> tuple[int, AsyncIterator[bytes]]:
        """The CSV as far as it is written: how long it is, and its pieces.

        Raises:
            FileNotFoundError: it is not kept.
        """
        path = self._kept().path(name, ".csv")
        size = (await asyncio.to_thread(path.stat)).st_size
        return size, _pieces(path, size)

    async def parquet(self, name: str) -> bytes:
        """The same as Parquet.

        Raises:
            FileNotFoundError: it is not kept.
            NotMade: it cannot be made.
        """
        source = self._kept().path(name, ".csv")
        await asyncio.to_thread(source.stat)
        async with self._making:
            with tempfile.TemporaryDirectory(prefix="triggerlog-visits-") as folder:
                made = Path(folder) / "visits.parquet"
                command = ("-m", "daemon", "visits", "export", str(source), "--format", "parquet", "-o", str(made))
                await self._make("export", Path(folder), *command)
                return await asyncio.to_thread(made.read_bytes)

    async def report(self, name: str) -> bytes:
        """The report as HTML, made anew where the run has more to tell than when it was made last.

        Raises:
            FileNotFoundError: it is not kept.
            NotMade: it cannot be made.
        """
        record, made = self._kept().path(name, ".json"), self._kept().path(name, ".html")
        async with self._making:
            await asyncio.to_thread(self._complete, name)
            if not await asyncio.to_thread(_is_newer, made, record):
                command = ("-m", "benchmarks.visits", str(record), "--output", str(made))
                await self._make("report", self._kept().folder, *command)
            return await asyncio.to_thread(made.read_bytes)

    def _complete(self, name: str) -> None:
        """Put the visits into the record of a run that has not ended, or was killed."""
        head = self._kept().head(name)
        if name == self._in_use() or head.problem in UNTOLD:
            self._kept().write(head)

    async def _make(self, what: str, folder: Path, *command: str) -> None:
        # Piped, so that nothing of this process has to run between fork and exec.
        child = await Child.start(what, [sys.executable, *command], folder / f"{what}.log", piped=LEAST_LINE)
        try:
            await child.ended()
        finally:
            await child.kill()
        if child.exit_code:
            raise NotMade(child.ending())


async def _pieces(path: Path, size: int) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while size > 0 and (piece := await asyncio.to_thread(file.read, min(PIECE, size))):
            size -= len(piece)
            yield piece


def _is_newer(path: Path, other: Path) -> bool:
    try:
        return path.stat().st_mtime_ns >= other.stat().st_mtime_ns
    except FileNotFoundError:
        return False

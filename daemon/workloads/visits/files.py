"""Files of an archived run that others take away: the CSV, the Parquet file, the report."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from daemon.workloads.frame.supervised import run_command
from daemon.workloads.visits.archive import CSV, REPORT, VisitsArchive

CHUNK = 2**20


class RunFiles:
    """Each is made by a process of its own, one at a time: their libraries and their work stay out of the logger.

    Every method raises FileNotFoundError where the run is not in the archive, and CommandEnded where the file cannot be
    made.
    """

    def __init__(self, archive: VisitsArchive) -> None:
        self._archive = archive
        self._making = asyncio.Lock()

    async def csv(self, name: str) -> tuple[int, AsyncIterator[bytes]]:
        """The CSV as far as it is written: how many bytes it has, and these in chunks."""
        path = self._archive.path(name, CSV)
        size = (await asyncio.to_thread(path.stat)).st_size
        return size, _chunks(path, size)

    async def parquet(self, name: str) -> bytes:
        """The same as Parquet."""
        source = self._archive.path(name, CSV)
        await asyncio.to_thread(source.stat)
        async with self._making:
            with tempfile.TemporaryDirectory(prefix="triggerlog-visits-") as folder:
                made = Path(folder) / "visits.parquet"
                command = ("-m", "daemon", "visits", "export", str(source), "--format", "parquet", "-o", str(made))
                await run_command("export", command, Path(folder) / "export.log")
                return await asyncio.to_thread(made.read_bytes)

    async def report(self, name: str) -> bytes:
        """The report as HTML, made again where the run has changed since it was made last."""
        record, made = self._archive.path(name), self._archive.path(name, REPORT)
        async with self._making:
            changed_ns = await asyncio.to_thread(_changed_ns, record, self._archive.path(name, CSV))
            if not made.exists() or made.stat().st_mtime_ns < changed_ns:
                command = ("-m", "benchmarks.visits", str(record), "--output", str(made))
                await run_command("report", command, self._archive.folder / "report.log")
            return await asyncio.to_thread(made.read_bytes)


async def _chunks(path: Path, size: int) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while size > 0 and (chunk := await asyncio.to_thread(file.read, min(CHUNK, size))):
            size -= len(chunk)
            yield chunk


def _changed_ns(record: Path, csv: Path) -> int:
    """When the record or the visits changed last."""
    changed = record.stat().st_mtime_ns
    return max(changed, csv.stat().st_mtime_ns) if csv.exists() else changed

"""The archive of runs of visits: `state_dir/visits/ID.json` and ID.csv, ID.tiles.csv, ID.compactions.csv, ID.html.

The record has everything but the visits and the compactions: those stand in the CSV files, which grow by a row as each
comes, so that a process that is killed leaves them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from backends.folder_lock import FolderInUse, FolderLock
from daemon.workloads.frame.archive import Files, RunArchive, read_record
from daemon.workloads.visits.csv_rows import CsvRows, count_in, rows_in
from daemon.workloads.visits.series import DTYPE
from schemas.api.visits import Compaction, TileMeasure, VisitMeasure, VisitsRun, VisitsSummary
from schemas.readings import Array

FOLDER = "visits"
CSV, TILES, COMPACTIONS, REPORT = ".csv", ".tiles.csv", ".compactions.csv", ".html"


class VisitsInUse(Exception):
    """Another process runs visits in this folder; the message is one line that says what to do."""


class VisitsArchive(RunArchive[VisitsRun, VisitsSummary]):
    """Reads and writes files; nothing here is for the event loop. `folder` is state_dir/visits."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, VisitsRun, self._summary_of)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder: two runs of one configuration would take each other's visits for their own.

        Raises:
            VisitsInUse: another process has it.
            OSError: it cannot be made.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = FolderLock(self.folder / "lock")
        except FolderInUse:
            raise VisitsInUse(
                f"another process runs visits in {self.folder}; stop that one first (`triggerlog visits stop` "
                "where it is a daemon), or use another folder"
            ) from None
        with lock:
            yield

    def read(self, name: str) -> VisitsRun:
        """Read a run with its compactions, and without its visits, however many they are.

        Raises:
            OSError: it is not there.
            ValueError: it is none of this version.
        """
        return super().read(name).model_copy(update={"compactions": _compactions(self.path(name, COMPACTIONS))})

    def rows(self, name: str) -> Array:
        """What was measured of a run's visits, `series.DTYPE`, without a last line that was cut short.

        Raises:
            OSError: it is not there.
            ValueError: it is none of this version.
        """
        return read_csv(self.path(name, CSV))

    def write(self, name: str, record: VisitsRun) -> None:
        """Write the record of a run; its visits and its compactions are those of its CSV files, whatever it holds.

        Raises:
            OSError: it cannot be written.
        """
        super().write(name, record.model_copy(update={"visits": (), "compactions": ()}))

    def _summary_of(self, record: VisitsRun, files: Files) -> VisitsSummary:
        visits = count_in(self.path(record.id, CSV))
        is_over = record.state.is_over or not visits
        return VisitsSummary(
            id=record.id,
            began_ns=record.began_ns,
            ended_ns=record.ended_ns if is_over else files[CSV][0],
            index_mode=record.settings.index_mode,
            visits=visits,
            state=record.state,
            problem=record.problem,
        )


class RunWriter:
    """The CSV files of a run that goes on: what was there stays, but for a last line that was cut short."""

    def __init__(self, archive: VisitsArchive, name: str) -> None:
        archive.folder.mkdir(parents=True, exist_ok=True)
        self._visits = CsvRows(archive.path(name, CSV), VisitMeasure)
        self._tiles = CsvRows(archive.path(name, TILES), TileMeasure)
        self._compactions = CsvRows(archive.path(name, COMPACTIONS), Compaction)
        self._visits.open()

    def add(self, visit: VisitMeasure, tiles: Sequence[TileMeasure]) -> None:
        """Write a visit, and its tiles where there is more than one: with the kernel when this returns.

        Raises:
            OSError: it cannot be written.
        """
        self._visits.add(visit)
        if len(tiles) > 1:
            self._tiles.add(*tiles)

    def cut(self, visit: int) -> None:
        """Take out the rows of visits from one on: the database has lost them, and they come again.

        What was compacted stays: a compaction that was done is not lost.

        Raises:
            OSError: it cannot be written.
        """
        self._visits.cut(visit)
        self._tiles.cut(visit)

    def add_compaction(self, compaction: Compaction) -> None:
        """Write a compaction: with the kernel when this returns.

        Raises:
            OSError: it cannot be written.
        """
        self._compactions.add(compaction)

    def close(self) -> None:
        """Close the files."""
        for file in (self._visits, self._tiles, self._compactions):
            file.close()


def read_csv(path: Path) -> Array:
    """The visits of a CSV as `series.DTYPE`.

    Raises:
        OSError: it is not there.
        ValueError: it is no CSV of visits of this version.
    """
    with path.open("rb"):  # not there is not empty
        pass
    return np.fromiter((tuple(visit.values()) for visit in rows_in(path, VisitMeasure)), DTYPE)


def read_run(path: Path) -> VisitsRun:
    """Read a run from a JSON file anywhere: its visits and compactions are in it, or in the CSV files next to it.

    Raises:
        OSError: it is not there.
        ValueError: it is no run of this version.
    """
    run = read_record(path, VisitsRun)
    if run.visits:
        return run
    visits = tuple(VisitMeasure(**visit) for visit in rows_in(path.with_suffix(CSV), VisitMeasure))
    return run.model_copy(update={"visits": visits, "compactions": _compactions(path.with_suffix(COMPACTIONS))})


def _compactions(path: Path) -> tuple[Compaction, ...]:
    return tuple(Compaction(**each) for each in rows_in(path, Compaction))

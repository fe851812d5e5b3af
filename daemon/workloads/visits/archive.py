"""The archive of runs of visits: `state_dir/visits/ID.json` and ID.csv, ID.tiles.csv, ID.compactions.csv, ID.html.

The record has everything but the visits and the compactions: those stand in the CSV files, which grow by a row as each
comes, so that a process that is killed leaves them.
"""

import csv
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from pydantic import BaseModel

from backends.files import FolderInUse, FolderLock
from daemon.workloads.frame.archive import Files, RunArchive, read_record
from schemas.api.visits import Compaction, TileMeasure, VisitMeasure, VisitsRun, VisitsSummary
from schemas.readings import Array

# --- what was measured, in memory ------------------------------------------------------------------------------------
# A numpy column a field, a visit an element. Python objects of 100,000 visits would take hundreds of megabytes of the
# logger's process; these take a hundredth.

MOST = 2**18
"""Visits that are held, 37 MB of them: at the paper's cadence a year. Of a longer run these are the last, and the CSV
has all."""
FIRST = 1024

_TYPES = {int: "<i8", float: "<f4", bool: "?"}
_WIDE = {"time_ns": "<i8", "ra": "<f8", "decl": "<f8"}
DTYPE = np.dtype(
    [
        (name, _WIDE.get(name) or _TYPES[field.annotation])  # type: ignore[index]
        for name, field in VisitMeasure.model_fields.items()
    ]
)
"""The fields of VisitMeasure; seconds as float32, which keeps them to a tenth of a microsecond."""


class Series:
    """Grows by a visit at a time."""

    def __init__(self) -> None:
        self._rows = np.empty(FIRST, DTYPE)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def rows(self) -> Array:
        """What is held, DTYPE, in the order it came; a view, which later visits leave as it is."""
        return self._rows[: self._n]

    def add(self, measure: VisitMeasure) -> None:
        """Take a visit."""
        if self._n == len(self._rows):
            self._make_room()
        self._rows[self._n] = tuple(measure.__dict__[name] for name in DTYPE.names or ())
        self._n += 1

    def take(self, rows: Array) -> None:
        """Take many: DTYPE, shape (visits,)."""
        kept = np.concatenate([self.rows, rows])[-MOST:]
        self._rows, self._n = kept, len(kept)

    def cut(self, visit: int) -> None:
        """Forget visits from one on; they are in order."""
        # A new array: whoever holds a view of the old one keeps what it saw.
        self._n = int(np.searchsorted(self.rows["visit"], visit))
        self._rows = self._rows.copy()

    def column(self, name: str) -> Array:
        """One field of all that is held."""
        return self.rows[name]

    def _make_room(self) -> None:
        # A new array each time: whoever holds a view of the old one keeps what it saw.
        kept = self.rows[self._n // 8 :] if self._n >= MOST else self.rows
        wider = np.empty(min(max(FIRST, 2 * self._n), MOST), DTYPE)
        wider[: len(kept)] = kept
        self._rows, self._n = wider, len(kept)


def measure_of(row: Array) -> VisitMeasure:
    """One element as what was measured."""
    return VisitMeasure(**dict(zip(DTYPE.names or (), row.tolist(), strict=True)))


def rows_of(columns: Mapping[str, Array]) -> Array:
    """Put columns together: DTYPE, shape (visits,)."""
    rows = np.empty(len(next(iter(columns.values()))), DTYPE)
    for name in DTYPE.names or ():
        rows[name] = columns[name]
    return rows


# --- rows of a model as lines of a CSV -------------------------------------------------------------------------------

_READS: dict[Any, Callable[[str], Any]] = {int: int, float: float, str: str, bool: lambda text: text == "1"}


class CsvRows:
    """A CSV that is written, and goes on where it ended.

    Args:
        path: made with the first row.
        model: its fields are the columns.

    """

    def __init__(self, path: Path, model: type[BaseModel]) -> None:
        self._path = path
        self._names = tuple(model.model_fields)
        self._file: TextIOWrapper | None = None

    def open(self) -> TextIOWrapper:
        """Make the file, if that is not so already.

        Raises:
            OSError: it cannot be written.
        """
        if self._file is None:
            self._file = _opened(self._path, self._names)
        return self._file

    def add(self, *rows: BaseModel) -> None:
        """Write rows: with the kernel when this returns.

        Raises:
            OSError: they cannot be written.
        """
        file = self.open()
        file.writelines(_line(row, self._names) for row in rows)
        file.flush()

    def cut(self, least: int) -> None:
        """Take out the rows whose first column, which ascends, is `least` or more.

        Raises:
            OSError: it cannot be written.
        """
        self.close()
        if self._path.exists():
            with self._path.open("rb+") as file:
                file.truncate(_place(file, least))

    def close(self) -> None:
        """Give the file back; it can be opened again."""
        if self._file is not None:
            self._file.close()
            self._file = None


def rows_in(path: Path, model: type[BaseModel]) -> Iterator[dict[str, Any]]:
    """The rows of a CSV, in order; none where there is no such file.

    Raises:
        ValueError: it has other columns.
    """
    if not path.exists():
        return
    lines = csv.reader(_whole_lines(path))
    header = tuple(next(lines, ()))
    if not header:
        return
    if header != tuple(model.model_fields):
        raise ValueError(f"{path} has other columns than this version's; read it with the version that wrote it")
    reads = [_READS[field.annotation] for field in model.model_fields.values()]
    for row in lines:
        if len(row) != len(reads):
            raise ValueError(f"{path} has a row with {len(row)} fields instead of {len(reads)}; take that row out")
        yield {name: read(text) for name, read, text in zip(header, reads, row, strict=True)}


def count_in(path: Path) -> int:
    """How many whole rows a CSV has; 0 where there is none."""
    try:
        with path.open("rb") as file:
            chunks = iter(lambda: file.read(2**20), b"")
            return max(0, sum(chunk.count(b"\n") for chunk in chunks) - 1)
    except FileNotFoundError:
        return 0


def _place(file: BinaryIO, least: int) -> int:
    """Where the first row begins whose first column is `least` or more, or a last line that was cut short."""

    def line_at(offset: int) -> tuple[int, bytes]:
        """The first line that begins there or after it, and where."""
        file.seek(offset - 1)
        file.readline()
        return file.tell(), file.readline()

    def is_after(offset: int) -> bool:
        _, line = line_at(offset)
        return not line.endswith(b"\n") or int(line.split(b",", 1)[0]) >= least

    file.seek(0)
    header = len(file.readline())
    # Some tens of lines are read, of however many there are.
    offsets = range(header, file.seek(0, os.SEEK_END))
    return line_at(header + bisect_left(offsets, True, key=is_after))[0] if header else 0


def _line(row: BaseModel, names: tuple[str, ...]) -> str:
    # Six digits of a second are microseconds; what a spreadsheet reads is what was measured.
    return ",".join(_text(row.__dict__[name]) for name in names) + "\n"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def _opened(path: Path, names: tuple[str, ...]) -> TextIOWrapper:
    """Open a CSV to go on with, without what a crash left of its last line."""
    with path.open("ab+") as file:
        size = file.seek(0, os.SEEK_END)
        at = max(0, size - 2**16)
        file.seek(at)
        end = at + file.read().rfind(b"\n") + 1
        if end < size:
            file.truncate(end)
    opened = path.open("a", encoding="ascii", newline="")
    if end == 0:
        opened.write(",".join(names) + "\n")
        opened.flush()
    return opened


def _whole_lines(path: Path) -> Iterator[str]:
    with path.open(encoding="ascii", errors="replace", newline="") as file:
        for line in file:
            if line.endswith("\n"):
                yield line


# --- the archive -----------------------------------------------------------------------------------------------------

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

"""What is kept of runs of visits: `state_dir/visits/ID.csv`, ID.tiles.csv, ID.compactions.csv, ID.json; the newest 100.

The CSV is written as visits come, a row a visit. The JSON is written twice: at the begin without visits, and at the end
with all of them; whoever reads one of a run that was killed has its visits from the CSV.
"""

import fcntl
import itertools
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import orjson
from pydantic import ValidationError

from daemon.workloads.visits.csv_rows import CsvRows, count_in, rows_in
from daemon.workloads.visits.series import DTYPE
from schemas.api.visits import Compaction, TileMeasure, VisitMeasure, VisitsRun, VisitsSummary
from schemas.readings import Array

FOLDER = "visits"
MOST = 100
ID = re.compile(r"\d{8}T\d{6}Z(-\d+)?")

CUT_OFF = "it had not ended when the process that kept it did; with the daemon it goes on"
"""The problem of a run from its begin on, until its end replaces it: a process that is killed leaves it behind."""
CUT_OFF_ALONE = "it had not ended when its process did; the same command goes on from there"
"""The same of a run without a daemon."""
BY_DAEMON = "the daemon was stopped; it goes on at the next start"
GOES_ON = (CUT_OFF, BY_DAEMON)
UNTOLD = (CUT_OFF, CUT_OFF_ALONE)
"""Problems of runs whose end nobody could write down."""
STOPPED = "it was stopped on request"

COMPACTIONS = ".compactions.csv"
_ENDINGS = (".json", ".csv", ".tiles.csv", COMPACTIONS, ".html")


class VisitsInUse(Exception):
    """Another process runs visits in this folder; the message is one line with the mend."""


class Kept:
    """Reads and writes files; nothing here is for the event loop. `folder` is state_dir/visits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._summaries: dict[str, tuple[tuple[int, int], VisitsSummary]] = {}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the folder: two runs of one configuration would take each other's visits for their own.

        Raises:
            VisitsInUse: another process has it.
            OSError: it cannot be made.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise VisitsInUse(
                    f"another process runs visits in {self.folder}; stop that one first (`triggerlog visits stop` "
                    "where it is a daemon), or use another folder"
                ) from None
            yield
        finally:
            os.close(descriptor)

    def new_id(self) -> str:
        """A name that no run has: when it began."""
        began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        tried = itertools.chain([began], (f"{began}-{i}" for i in itertools.count(2)))
        return next(name for name in tried if not self.path(name, ".json").exists())

    def path(self, name: str, ending: str) -> Path:
        """A file of a run: `.json`, `.csv`, `.tiles.csv`, `.compactions.csv` or `.html`."""
        return self.folder / f"{name}{ending}"

    def names(self) -> list[str]:
        """The runs that are kept, the newest first."""
        names = [path.stem for path in self.folder.glob("*.json") if ID.fullmatch(path.stem)]
        return sorted(names, key=_age, reverse=True)

    def summaries(self) -> list[VisitsSummary]:
        """A line each, the newest first; one that cannot be read is left out."""
        found: dict[str, tuple[tuple[int, int], VisitsSummary]] = {}
        for name in self.names():
            try:
                # A page asks every few seconds, and a CSV may have a hundred megabytes.
                state = _state_of(self.path(name, ".json"), self.path(name, ".csv"))
                known = self._summaries.get(name)
                found[name] = known if known is not None and known[0] == state else (state, self._summary(name))
            except (OSError, ValueError):
                continue
        self._summaries = found
        return [summary for _, summary in found.values()]

    def _summary(self, name: str) -> VisitsSummary:
        head = self.head(name)
        csv_path = self.path(name, ".csv")
        visits, ended_ns = count_in(csv_path), head.ended_ns
        if head.problem in UNTOLD and visits:
            ended_ns = csv_path.stat().st_mtime_ns
        return VisitsSummary(
            id=name,
            began_ns=head.began_ns,
            ended_ns=ended_ns,
            index_mode=head.settings.index_mode,
            visits=visits,
            problem=head.problem,
        )

    def head(self, name: str) -> VisitsRun:
        """A run without its visits, however many they are.

        Raises:
            OSError: it is not kept.
            ValueError: it is none of this version.
        """
        with self.path(name, ".json").open("rb") as file:
            first = file.readline()
        # The visits begin on the second line, so that whoever wants the rest reads one line.
        text = first if first.endswith(b"}\n") else first.rstrip().removesuffix(b"[") + b"[]}"
        run = VisitsRun.model_validate_json(text)
        return run.model_copy(update={"compactions": self.compactions(name)})

    def compactions(self, name: str) -> tuple[Compaction, ...]:
        """What was compacted in a run, in order; none where nothing was.

        Raises:
            ValueError: they are none of this version.
        """
        return tuple(Compaction(**each) for each in rows_in(self.path(name, COMPACTIONS), Compaction))

    def rows(self, name: str) -> Array:
        """What was measured of a run's visits, `series.DTYPE`, from its CSV, without a last line that was cut short.

        Raises:
            OSError: it is not kept.
            ValueError: it is none of this version.
        """
        return read_csv(self.path(name, ".csv"))

    def read(self, name: str) -> VisitsRun:
        """A run with its visits.

        Raises:
            OSError: it is not kept.
            ValueError: it is none of this version.
        """
        visits = tuple(VisitMeasure(**visit) for visit in rows_in(self.path(name, ".csv"), VisitMeasure))
        return self.head(name).model_copy(update={"visits": visits})

    def write(self, run: VisitsRun) -> None:
        """Keep a run: whole, or as it was before. Its visits are those of its CSV, whatever `run.visits` is.

        Raises:
            OSError: it cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(run.id, ".json")
        new = path.with_name(f".{path.name}.new")
        head = orjson.dumps({**run.model_dump(mode="json", by_alias=True, exclude={"visits"}), "visits": []})
        with new.open("wb") as file:
            file.write(head.removesuffix(b"]}"))
            # One at a time: all of them at once would be a hundred megabytes beside the logger.
            for i, visit in enumerate(rows_in(self.path(run.id, ".csv"), VisitMeasure)):
                file.write((b",\n" if i else b"\n") + orjson.dumps(visit))
            file.write(b"]}\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)

    def forget_old(self, most: int = MOST) -> list[str]:
        """Remove all but the newest hundred; return which went."""
        old = self.names()[most:]
        for name in old:
            self.forget(name)
        return old

    def forget(self, name: str) -> None:
        """Remove a run's files."""
        for ending in _ENDINGS:
            self.path(name, ending).unlink(missing_ok=True)


class Writing:
    """The CSV files of a run that goes on: what was there stays, but for a last line that was cut short."""

    def __init__(self, kept: Kept, name: str) -> None:
        kept.folder.mkdir(parents=True, exist_ok=True)
        self._visits = CsvRows(kept.path(name, ".csv"), VisitMeasure)
        self._tiles = CsvRows(kept.path(name, ".tiles.csv"), TileMeasure)
        self._compactions = CsvRows(kept.path(name, COMPACTIONS), Compaction)
        self._visits.open()

    def add(self, visit: VisitMeasure, tiles: Sequence[TileMeasure]) -> None:
        """Write a visit, and its tiles where there is more than one: with the kernel when this returns.

        Raises:
            OSError: it cannot be written.
        """
        self._visits.add(visit)
        if len(tiles) > 1:
            self._tiles.add(*tiles)

    def add_compaction(self, compaction: Compaction) -> None:
        """Write a compaction: with the kernel when this returns.

        Raises:
            OSError: it cannot be written.
        """
        self._compactions.add(compaction)

    def close(self) -> None:
        """Give the files back."""
        for file in (self._visits, self._tiles, self._compactions):
            file.close()


def _state_of(record: Path, rows: Path) -> tuple[int, int]:
    """What changes whenever there is more to tell of a run."""
    return record.stat().st_mtime_ns, rows.stat().st_size if rows.exists() else 0


def _age(name: str) -> tuple[str, int]:
    began, _, number = name.partition("-")
    return began, int(number or 1)


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
    """A run from a JSON file anywhere, with the visits that stand in it, or else in the CSV beside it.

    Raises:
        OSError: it is not there.
        ValueError: it is no run of this version.
    """
    try:
        run = VisitsRun.model_validate_json(path.read_bytes())
    except ValidationError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} is no run of visits of this version ({reason})") from None
    if run.visits:
        return run
    visits = tuple(VisitMeasure(**visit) for visit in rows_in(path.with_suffix(".csv"), VisitMeasure))
    return run.model_copy(update={"visits": visits})

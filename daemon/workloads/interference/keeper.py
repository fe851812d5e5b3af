"""Where experiments are kept: `state_dir/interference/ID.json` and ID.html, the newest hundred."""

import os
import re
import time
from pathlib import Path

from pydantic import ValidationError

from daemon.workloads.interference.words import readers_words
from schemas.api.interference import Ratio, Record, RecordState, Result, Summary

MOST = 100
ID = re.compile(r"\d{8}T\d{6}Z(-\d+)?")


class Keeper:
    """Reads and writes files; nothing here is for the event loop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def new_id(self) -> str:
        """A name that no record has: when it began."""
        began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        tried = (began if i == 1 else f"{began}-{i}" for i in range(1, MOST + 2))
        return next(name for name in tried if not self.record_path(name).exists())

    def record_path(self, name: str) -> Path:
        """The record of an experiment."""
        return self.folder / f"{name}.json"

    def report_path(self, name: str) -> Path:
        """Its report."""
        return self.folder / f"{name}.html"

    def write(self, record: Record) -> None:
        """Keep a record: whole, or as it was before.

        Raises:
            OSError: it cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.record_path(record.id)
        new = path.with_name(f".{path.name}.new")
        with new.open("w", encoding="utf-8") as file:
            file.write(record.model_dump_json(indent=1))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)

    def read(self, name: str) -> Record:
        """Read a record.

        Raises:
            OSError: it is not there.
            ValueError: it is no record of this version.
        """
        return Record.model_validate_json(self.record_path(name).read_bytes())

    def read_all(self) -> tuple[list[Record], list[str]]:
        """All records, the newest first, and what is wrong with those that cannot be read."""
        found: list[Record] = []
        wrong: list[str] = []
        for name in self.names():
            try:
                found.append(self.read(name))
            except (OSError, ValidationError) as error:
                reason = str(error).splitlines()[0]
                wrong.append(f"{self.record_path(name)} is no record of an experiment that can be read ({reason})")
        return found, wrong

    def names(self) -> list[str]:
        """The experiments that are kept, the newest first."""
        names = [path.stem for path in self.folder.glob("*.json") if ID.fullmatch(path.stem)]
        return sorted(names, reverse=True)

    def forget_old(self) -> list[str]:
        """Remove all but the newest hundred; return which went."""
        old = self.names()[MOST:]
        for name in old:
            self.report_path(name).unlink(missing_ok=True)
            self.record_path(name).unlink(missing_ok=True)
        return old


def summary_of(record: Record, *, has_report: bool) -> Summary:
    """A line of the list."""
    result, settings = record.result, record.settings
    return Summary(
        id=record.id,
        began_ns=record.began_ns,
        state=record.state,
        problem=record.problem,
        readers=readers_words(settings),
        pairs=settings.pairs,
        block_s=settings.block_s,
        doses=list(settings.doses),
        blocks=sum(block.whole for block in record.blocks),
        p99=_ratio(result, "p99_ms"),
        rate=_ratio(result, "rate"),
        steady=result.steady if result else None,
        headline=result.headline if result else "",
        report=has_report,
    )


def broken_off(record: Record) -> Record:
    """A record that a daemon left running when it died."""
    return record.model_copy(
        update={"state": RecordState.BROKEN_OFF, "problem": "the daemon ended without being asked to"}
    )


def _ratio(result: Result | None, figure: str) -> Ratio | None:
    rows = [row for row in (result.rows if result else []) if row.figure == figure]
    return max(rows, key=lambda row: row.readers).b_to_a if rows else None

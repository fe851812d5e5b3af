"""The marks of an export: those of its span and group, and the file that holds them beside a CSV."""

import csv
from pathlib import Path
from typing import Any

import typer

from backends.base import Store, StoreError
from daemon.core.moments import rfc3339
from daemon.core.words import cell
from daemon.tools.export.span import Span
from schemas.marks import Mark, MarksWithin

MOST = 100_000
COLUMNS = ("time", "time_ns", "until_ns", "text", "author", "group", "id")


async def marks_of(store: Store, span: Span, group: str) -> tuple[Mark, ...]:
    """The marks of a span that are about a group, or about all.

    Where the database has no marks that can be read, that is said, and the readings are exported without any.
    """
    try:
        found = await store.marks(MarksWithin(start_ns=span.start_ns, end_ns=span.end_ns, most=MOST))
    except StoreError as error:
        if error.is_away:
            raise
        typer.echo(f"triggerlog: the export has no marks: {error}", err=True)
        return ()
    return tuple(mark for mark in found if mark.group in (None, group))


def row_of(mark: Mark) -> dict[str, Any]:
    """A mark by COLUMNS; None where it says nothing."""
    return {"time": rfc3339(mark.time_ns), **mark.model_dump(mode="json")}


def beside(output: Path, ending: str, other: str) -> Path:
    """A file beside another, such as that of its marks: `x.marks.csv` of `x.csv` and `x.csv.gz`, of that ending."""
    return output.with_name(f"{output.name[: -len(ending)]}.{other}")


def write_csv(path: Path, marks: tuple[Mark, ...]) -> None:
    """Write marks as CSV, one a row."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        rows.writeheader()
        rows.writerows({name: cell(value) for name, value in row_of(mark).items()} for mark in marks)

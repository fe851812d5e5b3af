"""Rows of a pydantic model as lines of a CSV: written as they come, read without a last line that was cut short."""

import csv
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel

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

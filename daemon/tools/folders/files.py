"""Files with intervals for a folder: CSV, and what numpy saves."""

import csv
import gzip
import io
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from daemon.core.outcome import CommandFailed, fix_of, read_at_most, reason_of
from daemon.core.words import text_of
from daemon.tools.export.exporting import folder_time
from schemas.api.folders import FolderDetails
from schemas.checking.problems import listed, printable, suggestion
from schemas.conditions.rules import ConditionsRefused
from schemas.folders.bodies import block_of
from schemas.folders.folders import Column
from schemas.readings import Array

ENDINGS = (".csv", ".csv.gz", ".npy", ".npz")
MOST_BYTES, MOST_CSV_BYTES = 256 * 2**20, 64 * 2**20
"""Of a file, and of its arrays when unpacked; of a CSV, whose values take ten times as much when they are read."""

Lists = Mapping[str, Sequence[Any]]


def read_block(path: Path, folder: FolderDetails) -> Array:
    """Read the intervals of a file, in its order.

    A .npy has one block. A .csv has a header and a line an interval, and a .npz an array a column: `channel` (number or
    name), `since`, `until` (empty, or left out, where it is open), and the folder's columns. A .csv may have what an
    export writes: times as RFC 3339, and the name of each channel.

    Raises:
        CommandFailed: the file cannot be read, or is wrong; the message names the column, the interval and the fix.
    """
    ending = next((ending for ending in ENDINGS if path.name.lower().endswith(ending)), None)
    if ending is None:
        raise CommandFailed(f"FILE: {path.name} does not say the format; end it with {listed(ENDINGS)}")
    try:
        block = _saved(path) if ending == ".npy" else _made(_lists(path, ending, folder), folder)
    except OSError as error:
        fix = fix_of(error, "name a file that is there")
        raise CommandFailed(f"FILE: {path} cannot be read ({reason_of(error)}); {fix}") from None
    except ConditionsRefused as refused:
        field = refused.field.removeprefix("values.")
        raise CommandFailed(printable(f"{path}: {field}: {refused.problem}; {refused.fix}")) from None
    except (
        ValueError,
        csv.Error,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        problem = printable(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise CommandFailed(f"{path}: it cannot be read ({problem}); see docs/folders.md for its form") from None
    if block.dtype.names is None or not {"channel", "since"} <= set(block.dtype.names) or block.ndim != 1:
        raise CommandFailed(f"{path}: it holds {block.dtype}, and no block; save a structured array of the folder")
    return block


def _saved(path: Path) -> Array:
    loaded: Array = _array(path.name, read_at_most(path, MOST_BYTES))
    return loaded


def _array(name: str, content: bytes) -> Array:
    """Read an array whose own description may promise more than there is: numpy would make room for all of it."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"{name} has other bytes than its shape and dtype say")
    loaded: Array = np.load(io.BytesIO(content), allow_pickle=False)
    return loaded


def _lists(path: Path, ending: str, folder: FolderDetails) -> Lists:
    if ending.startswith(".csv"):
        return _csv(path, ending, folder)
    with zipfile.ZipFile(io.BytesIO(read_at_most(path, MOST_BYTES))) as members:
        sizes = sum(each.file_size for each in members.infolist())
        if sizes > MOST_BYTES:
            raise ValueError(f"its arrays have {sizes:,} bytes when unpacked; give at most {MOST_BYTES:,}")
        arrays = {each.removesuffix(".npy"): _array(each, members.read(each)) for each in members.namelist()}
    return {
        name: [each.decode() for each in array.tolist()] if array.dtype.kind == "S" else array.tolist()
        for name, array in arrays.items()
    }


def _csv(path: Path, ending: str, folder: FolderDetails) -> Lists:
    content = read_at_most(path, MOST_CSV_BYTES)
    if ending == ".csv.gz":
        try:
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MOST_CSV_BYTES + 1)
        except gzip.BadGzipFile as error:
            raise ValueError(str(error)) from None
        if len(content) > MOST_CSV_BYTES:
            raise ValueError(f"it has more than {MOST_CSV_BYTES:,} bytes when unpacked")
    header, *rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            problem = f"line {number} has {len(row)} values, and the header {len(header)}"
            raise CommandFailed(f"{path}: {problem}; give one a column")
    readers: dict[str, Callable[[str], Any]] = {"since": _time, "until": lambda cell: _time(cell) if cell else None}
    readers |= {each.name: _reader(each.column()) for each in folder.folder.columns}
    lists = {}
    for name, cells in zip(header, zip(*rows, strict=True) if rows else ((),) * len(header), strict=True):
        lists[name] = [_read(path, name, line, cell, readers.get(name, text_of)) for line, cell in enumerate(cells, 2)]
    if "name" not in readers and "channel" in lists:
        _check_names(path, lists["channel"], lists.pop("name", ()), folder.channels)
    return lists


def _check_names(path: Path, channels: Sequence[str], names: Sequence[str], known: Mapping[int, str]) -> None:
    """See that a file that names its channels, too, means those of this folder."""
    for channel, name in dict.fromkeys(zip(channels, names, strict=bool(names))):
        number = number_of(channel, known, "FILE")
        if known[number] != name:
            problem = f"channel {number} is {name[:60]!r} there, and {known[number][:60]!r} in the folder"
            fix = "write the names into the column `channel`, and leave `name` out"
            raise CommandFailed(printable(f"{path}: {problem}; {fix}"))


def _read(path: Path, name: str, line: int, cell: str, reader: Callable[[str], Any]) -> Any:
    try:
        return reader(cell)
    except CommandFailed as error:
        raise CommandFailed(printable(f"{path}: {name} of line {line}{error}")) from None
    except ValueError:
        fix = "give a number"
        raise CommandFailed(printable(f"{path}: {name} of line {line}: {cell[:40]!r} is no number; {fix}")) from None


def _reader(column: Column) -> Callable[[str], Any]:
    return text_of if column.is_text else float if column.dtype.startswith("float") else int


def _time(cell: str) -> int:
    return folder_time(cell, "")


def _made(lists: Lists, folder: FolderDetails) -> Array:
    columns = tuple(each.column() for each in folder.folder.columns)
    for name in ("channel", "since"):
        if name not in lists:
            raise CommandFailed(f"FILE: there is no {name}; give the columns channel, since, until and the folder's")
    values = {name: values for name, values in lists.items() if name not in ("channel", "since", "until")}
    count = len(lists["channel"])
    return block_of(
        columns,
        [number_of(each, folder.channels, "FILE") for each in lists["channel"]],
        lists["since"],
        lists.get("until", [None] * count),
        values,
    )


def number_of(channel: int | str, names: Mapping[int, str], where: str) -> int:
    """The number of a channel that is given by it, or named; where: in which file or argument.

    Raises:
        CommandFailed: the folder has no such channel.
    """
    text = str(channel)
    if text.isascii() and text.isdigit() and int(text) in names:
        return int(text)
    numbers = {name: number for number, name in names.items()}
    if text not in numbers:
        fix = suggestion(text, sorted(numbers)) if numbers else "add channels to it first"
        raise CommandFailed(printable(f"{where}: the folder has no channel {text[:60]!r}; {fix}"))
    return numbers[text]

"""Blocks of intervals as bodies: in numpy's own format, as packed records, as CSV, and as JSON.

For JSON and CSV a block becomes lists of Python's own values, and such lists a block.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from tokenize import TokenError
from typing import Any

import numpy as np
import orjson

from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.folders.blocks import OPEN
from schemas.folders.folders import KEY, Column, Folder, block_dtype
from schemas.readings import Array

Value = int | float | str


def values_of(block: Array, column: Column) -> Any:
    """Values of a column: numbers as a contiguous array, shape (n,); texts as a list of str."""
    values = np.ascontiguousarray(block[column.name])
    return [text.decode() for text in values.tolist()] if column.is_text else values


def ends_of(block: Array) -> list[int | None]:
    """`until` of each interval; None where it is open."""
    return [None if until == OPEN else until for until in block["until"].tolist()]


def block_of(
    columns: Sequence[Column],
    channel: Sequence[int],
    since: Sequence[int],
    until: Sequence[int | None],
    values: Mapping[str, Sequence[Value]],
) -> Array:
    """Make a block of lists, which have one value an interval; until None is open.

    Raises:
        ConditionsRefused: a list is missing or has another length, or a value does not fit; the message names it.
    """
    _see_names(columns, values)
    block = np.zeros(len(channel), block_dtype(columns))
    ends = [OPEN if each is None else each for each in until]
    for (name, form), numbers in zip(KEY, (channel, since, ends), strict=True):
        block[name] = _numbers(name, form, numbers, len(block))
    for column in columns:
        name, given = f"values.{column.name}", values[column.name]
        block[column.name] = (
            _texts(name, column, given, len(block))
            if column.is_text
            else _numbers(name, column.form, given, len(block))
        )
    return block


def _see_names(columns: Sequence[Column], values: Mapping[str, Sequence[Value]]) -> None:
    names = [column.name for column in columns]
    for name in names:
        if name not in values:
            raise _invalid(f"values.{name}", "there is no such list", f"give one of each column: {', '.join(names)}")
    for name in values:
        if name not in names:
            raise _invalid(
                f"values.{name[:60]}", "the folder has no such column", f"its columns are {', '.join(names)}"
            )


def _numbers(name: str, form: str, given: Sequence[Any], count: int) -> Array:
    _see_length(name, given, count)
    dtype = np.dtype(form)
    if dtype.kind == "f":
        wrong = next((k for k, each in enumerate(given) if isinstance(each, str)), None)
        fix = "give a number"
    else:
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        wrong = next((k for k, each in enumerate(given) if not (isinstance(each, int) and low <= each <= high)), None)
        fix = f"give an integer of {low} to {high}"
    if wrong is not None:
        raise _invalid(f"{name}[{wrong}]", f"{str(given[wrong])[:40]!r} does not fit {dtype.name}", fix)
    try:
        with np.errstate(over="ignore"):  # to infinity, which no store takes
            return np.array(given, dtype)
    except OverflowError:  # an integer that is beyond any float
        raise _invalid(name, f"a number does not fit {dtype.name}", fix) from None


def _texts(name: str, column: Column, given: Sequence[Any], count: int) -> list[bytes]:
    _see_length(name, given, count)
    texts = []
    for k, text in enumerate(given):
        if not isinstance(text, str):
            raise _invalid(f"{name}[{k}]", f"{str(text)[:40]} is no text", "write it in quotes")
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            raise _invalid(f"{name}[{k}]", "it cannot be written in UTF-8", "leave out surrogates") from None
        if len(encoded) > column.width or "\0" in text:
            # numpy would cut it off there, and say nothing.
            problem = f"{len(encoded):,} bytes" if len(encoded) > column.width else "it has a NUL in it"
            raise _invalid(f"{name}[{k}]", problem, f"give at most {column.width:,} bytes of UTF-8, without NUL")
        texts.append(encoded)
    return texts


def _see_length(name: str, given: Sequence[Any], count: int) -> None:
    if len(given) != count:
        raise _invalid(name, f"it has {len(given):,} values, and `channel` has {count:,}", "give one an interval")


def _invalid(field: str, problem: str, fix: str) -> ConditionsRefused:
    return ConditionsRefused(RefusalKind.INVALID, field, problem, fix)


HEAD_MOST = 100_000
"""Characters that describe a dtype of the most columns with the longest names; far fewer than would be slow to read."""
NOT_READ = (ValueError, TypeError, OverflowError, MemoryError, RecursionError, SyntaxError, TokenError)
"""What numpy raises for a header that is none: it is read as an expression of Python."""


def as_npy(block: Array) -> bytes:
    """A block as `numpy.load` reads it."""
    file = io.BytesIO()
    np.lib.format.write_array(file, block, allow_pickle=False)
    return file.getvalue()


def as_csv(block: Array, columns: Sequence[Column], cell: Callable[[object], object]) -> bytes:
    """A block with a line an interval, and a header; `until` is empty where an interval is open.

    cell: makes a value a cell that a spreadsheet takes for what it is.
    """
    file = io.StringIO(newline="")
    rows = csv.writer(file, lineterminator="\r\n")  # a text with one of its characters is put in quotes
    rows.writerow(block_dtype(columns).names or ())
    ends = ("" if until is None else until for until in ends_of(block))
    lists = (map(cell, values) for values in _lists(block, columns))
    rows.writerows(zip(block["channel"].tolist(), block["since"].tolist(), ends, *lists, strict=True))
    return file.getvalue().encode()


def as_json(block: Array, columns: Sequence[Column]) -> bytes:
    """A block as `schemas.api.folders.IntervalColumns`."""
    return orjson.dumps(
        {
            "channel": np.ascontiguousarray(block["channel"]),
            "since": np.ascontiguousarray(block["since"]),
            "until": ends_of(block),
            "values": {column.name: values_of(block, column) for column in columns},
        },
        option=orjson.OPT_SERIALIZE_NUMPY,
    )


def from_npy(body: bytes) -> Array:
    """The array in a body that `numpy.save` wrote, shape (n,).

    Raises:
        ConditionsRefused: there is none.
    """
    file = io.BytesIO(body)
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file, max_header_size=HEAD_MOST)
        # The header may claim what is not there: numpy's own reader would make room for it first.
        return np.frombuffer(body, dtype, offset=file.tell()).reshape(shape)
    except NOT_READ:
        raise _wrong("it is no array in numpy's format", "send what `numpy.save` writes, of one block") from None


def from_records(body: bytes, folder: Folder) -> Array:
    """The packed records of a body, of a folder's dtype.

    Raises:
        ConditionsRefused: the size of the body is not that of so many.
    """
    size = folder.dtype.itemsize
    if len(body) % size:
        problem = f"{len(body):,} bytes are not a whole number of records of {size:,} bytes"
        raise _wrong(problem, f"send packed records of {folder.dtype.descr}")
    return np.frombuffer(body, folder.dtype)


def _lists(block: Array, columns: Sequence[Column]) -> list[list[object]]:
    found = (values_of(block, column) for column in columns)
    return [values if isinstance(values, list) else values.tolist() for values in found]


def _wrong(problem: str, fix: str) -> ConditionsRefused:
    return ConditionsRefused(RefusalKind.INVALID, "body", problem, fix)

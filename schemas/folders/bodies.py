"""Blocks of intervals as bodies: in numpy's own format, as packed records, as CSV, and as JSON."""

import csv
import io
from collections.abc import Callable, Sequence
from tokenize import TokenError

import numpy as np
import orjson

from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.folders.columns import ends_of, values_of
from schemas.folders.folders import Column, Folder, block_dtype
from schemas.readings import Array

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

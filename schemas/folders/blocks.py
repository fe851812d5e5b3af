"""Blocks of intervals, and insertions of them; what is checked before a database is asked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schemas.batch import JournalPosition
from schemas.conditions.intervals import LARGEST, NAME_MOST
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.folders.folders import Column, Folder, FolderKind, FolderLayout
from schemas.readings import Array

OPEN = LARGEST
"""`until` of an open interval: nobody knows yet until when it is valid."""
SOURCE = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Insertion:
    """Intervals for one folder, and which insertion of their source they are.

    block: `Folder.dtype`, shape (n,), in any order; since <= t < until is when a value is valid. Times are integers of
        0 to 2^63 - 1, such as nanoseconds since 1970-01-01 UTC; until = OPEN is an open interval. In a single-version
        folder until = since is an end: from then on the channel has no value, whatever the columns say. Of reports each
        one is open, or an end.
    source: who inserts, such as the name of a logger; each source counts for itself in each folder.
    position: its `sequence` counts this source's insertions, in ascending order and never twice; `journal` says what
        counts it.
    follows: where the position was acknowledged to be; None where nobody knows. With it, a database that has lost what
        it acknowledged is noticed.
    """

    block: Array
    source: str
    position: JournalPosition
    follows: JournalPosition | None = None


def checked(folder: Folder, insertion: Insertion) -> Array:
    """Intervals in the order of (since, channel), of the folder's dtype; -0.0 is 0.0 in them, and ends have no values.

    Raises:
        ConditionsRefused: the source cannot be stored, or an interval of the block; the message names field and fix.
    """
    block = _checked(folder, insertion)
    if folder.kind is FolderKind.MULTI:
        _see(~are_ends(block), "until", "an end is for single-version folders", "give an end after the start")
    return block[np.lexsort((block["channel"], block["since"]))]


def checked_reports(folder: Folder, insertion: Insertion) -> Array:
    """Reports as they were given, of the folder's dtype; -0.0 is 0.0 in them, and ends have no values.

    Raises:
        ConditionsRefused: the folder takes no reports; the source cannot be stored, or one of the reports.
    """
    if folder.kind is not FolderKind.SINGLE:
        problem = f"{folder.path} is a multi-version folder, where nothing is ended"
        raise ConditionsRefused(RefusalKind.CONFLICT, "path", problem, "report into a single-version folder")
    if folder.layout is FolderLayout.ARRAYS:
        problem = f"{folder.path} has the layout {folder.layout}, where an interval with an end is not changed any more"
        raise ConditionsRefused(RefusalKind.CONFLICT, "path", problem, "report into a folder of another layout")
    block = _checked(folder, insertion)
    fix = "give 2^63 - 1, or the start where there is no value from then on"
    _see((block["until"] == OPEN) | are_ends(block), "until", "a report holds until the next one", fix)
    return block


def are_ends(block: Array) -> Array:
    """Which of some intervals are ends, of no length: bool, shape (n,)."""
    found: Array = block["since"] == block["until"]
    return found


def _checked(folder: Folder, insertion: Insertion) -> Array:
    """A copy of a block, in the caller's order."""
    if not SOURCE.fullmatch(insertion.source):
        raise _invalid("source", f"{insertion.source[:80]!r} cannot be stored", "take 1 to 64 of A-Z a-z 0-9 _ -")
    if not 0 < insertion.position.sequence <= LARGEST:
        raise _invalid("position.sequence", f"{insertion.position.sequence} counts nothing", "count from 1 on")
    block = insertion.block
    if block.dtype != folder.dtype or block.ndim != 1:
        raise _invalid("block", f"its dtype is {block.dtype}", f"give shape (n,) of {folder.dtype}")
    _see(block["channel"] >= 0, "channel", "it is below 0", "give the number of a channel")
    begins = (block["since"] >= 0) & (block["since"] < OPEN)
    _see(begins, "since", "nothing can begin then", "give an integer of 0 to 2^63 - 2")
    _see(block["since"] <= block["until"], "until", "the interval ends before it begins", "give an end after the start")
    block = block.copy()
    ends = are_ends(block)
    for column in folder.columns:
        block[column.name][ends] = np.zeros(1, column.form)
        _check_values(block, column)
    return block


def check_times(**times: int) -> None:
    """See that times that are asked for are times, or one before all.

    Raises:
        ConditionsRefused: one is not.
    """
    for name, time in times.items():
        if not -1 <= time <= LARGEST:
            raise _invalid(name, f"{time} is no time", "give an integer of -1 to 2^63 - 1")


def check_span(since: int, until: int) -> None:
    """See that a span that is asked for is one.

    Raises:
        ConditionsRefused: it is not.
    """
    check_times(since=since, until=until)
    if not since < until:
        raise _invalid("until", "the span ends before it begins", "give an end after the start")


def see_channels(block: Array, known: Array, path: str) -> None:
    """See that a folder has the channels of a block. known: int32, sorted.

    Raises:
        ConditionsRefused: one of them is not there.
    """
    numbers = np.unique(block["channel"])
    missing = numbers[~np.isin(numbers, known)]
    if len(missing):
        raise ConditionsRefused(
            RefusalKind.UNKNOWN, "channel", f"{missing[0]} is not in folder {path}", "add the channel first"
        )


def sorted_block(parts: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    """Join blocks, in the order of (channel, since)."""
    block = joined(parts, dtype)
    return block[np.lexsort((block["since"], block["channel"]))]


def joined(parts: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    """Join blocks of one dtype, as bytes: numpy copies structured rows field by field."""
    return np.frombuffer(b"".join(part.tobytes() for part in parts), dtype)


def _check_values(block: Array, column: Column) -> None:
    """See that a column can be stored; block: a copy, whose -0.0 become 0.0."""
    values = block[column.name]
    if column.dtype.startswith("float"):
        _see(np.isfinite(values), column.name, "it is no finite number", "leave the interval out where there is none")
        values += 0.0
    if column.is_text:
        _check_texts(values, column)


def _check_texts(values: Array, column: Column) -> None:
    fix = "leave out NUL, and give UTF-8"
    lengths = np.char.str_len(values)
    characters = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), column.width)
    within = np.arange(column.width) < lengths[:, None]
    _see(~((characters == 0) & within).any(axis=1), column.name, "a text has a NUL in it", fix)
    texts = values.tolist()
    try:
        # NULs between them: a character that is cut off at the end of one is not completed by the next.
        b"\0".join(texts).decode()
    except UnicodeDecodeError:
        _see(np.array([_is_utf8(text) for text in texts]), column.name, "a text is no UTF-8", fix)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _see(good: Array, field: str, problem: str, fix: str) -> None:
    if not good.all():
        raise _invalid(f"block[{int(np.argmin(good))}].{field}", problem, fix)


def _invalid(field: str, problem: str, fix: str) -> ConditionsRefused:
    return ConditionsRefused(RefusalKind.INVALID, field, problem[: 4 * NAME_MOST], fix)

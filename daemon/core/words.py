"""Words: how lines for an operator are put together."""

import re
import time
from collections.abc import Iterable
from typing import Any

NAMED = 5
"""Instruments named in one line; of more it says how many there are."""


FORMULA = r"^('*[=+\-@\t\r])"
"""The beginning of a text that a spreadsheet takes for a formula, or that has been kept from being one."""


def cell(value: Any) -> Any:
    """Return a value for a CSV: text that a spreadsheet would take for a formula has an apostrophe before it."""
    return re.sub(FORMULA, r"'\1", value) if isinstance(value, str) else value


def text_of(cell: str) -> str:
    """Return the text that was written as a cell of a CSV."""
    return cell[1:] if cell.startswith("'") and re.match(FORMULA, cell) else cell


def listing(names: Iterable[str]) -> str:
    """Some names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - NAMED:,} more" if len(every) > NAMED else ""
    return ", ".join(every[:NAMED]) + more


def ms(value: float | None) -> str:
    """Say a latency in milliseconds, for a table whose heading says the unit; a dash where there is none."""
    return "–" if value is None else f"{value:,.1f}"


def utc(time_ns: int) -> str:
    """A time in ns since 1970-01-01 UTC, to the millisecond."""
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(time_ns // 10**9))}.{time_ns // 10**6 % 1000:03d}Z"


def duration(seconds: float) -> str:
    """A duration as text: `42 s`, `3 min 20 s`, `5 h 07 min`, `2 d 05 h`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600:02d} h"

"""Rows as the commands print them: in columns for people, or as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from daemon.tools.options import print_answer
from schemas.checking.problems import printable
from schemas.conditions.differences import Payload
from schemas.conditions.intervals import END, Key

DIGITS = 12
"""Digits of a checksum that are shown to people."""


def listing(columns: Sequence[str], rows: Sequence[Sequence[Any]], as_json: bool, otherwise: str) -> None:
    """Print rows; for people `otherwise` where there are none."""
    document = orjson.dumps([dict(zip(columns, map(_as_json, row), strict=True)) for row in rows]) if as_json else b""
    print_answer(as_json, document.decode(), lambda: in_columns(columns, rows, otherwise))


def in_columns(columns: Sequence[str], rows: Sequence[Sequence[Any]], otherwise: str) -> Iterator[str]:
    """Yield a line a row under the names of the columns; `otherwise` where there are none.

    Without a table of rich: 26,000 intervals are printed in no time, and a line of any width stays one line.
    """
    if not rows:
        yield otherwise
        return
    texts = [list(columns), *([_text(name, cell) for name, cell in zip(columns, row, strict=True)] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for line in texts:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _as_json(cell: Any) -> Any:
    if isinstance(cell, Payload):
        return {"url": cell.url, "checksum": cell.checksum}
    if isinstance(cell, Key):
        return None if cell == END else list(cell)
    return cell


def _text(column: str, cell: Any) -> str:
    match cell:
        case None:
            return "–"
        case Payload():
            return printable(f"{cell.url} {cell.checksum[:DIGITS]}".rstrip())
        case Key():
            return "open" if cell == END else f"{cell.major} {cell.minor}"
        case int():
            return f"{cell:,}"
    return printable(str(cell)[:DIGITS] if column == "checksum" else str(cell))

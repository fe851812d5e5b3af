"""Answers as the commands print them: as JSON, or for people as lines, columns, and what rich prints."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson
import typer
from pydantic import BaseModel

from schemas.checking.problems import printable
from schemas.conditions.intervals import END, Key, Payload

DIGITS = 12
"""Digits of a checksum that are shown to people."""


def print_answer(
    as_json: bool,
    document: object,
    lines: Callable[[], Iterable[object]] = tuple,
    otherwise: str | None = None,
    width: int | None = None,
) -> None:
    """Print a document as JSON, or for people the lines that are made of it.

    Args:
        as_json: whether --json was given.
        document: JSON, a model, or what `json` can write.
        lines: called for people: texts, and what rich prints.
        otherwise: what people read where there are no lines.
        width: of what rich prints, where that goes into a file.

    """
    if as_json:
        typer.echo(_document(document))
        return
    console = None
    for line in lines():
        otherwise = None
        if isinstance(line, str):
            typer.echo(line)
            continue
        if console is None:
            from daemon.tools.console import make_console  # noqa: PLC0415 - most print texts

            console = make_console(highlight=False, file_width=width)
        console.print(line)
    if otherwise is not None:
        typer.echo(otherwise)


def _document(document: object) -> str:
    if isinstance(document, str):
        return document
    return document.model_dump_json() if isinstance(document, BaseModel) else json.dumps(document, indent=2)


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

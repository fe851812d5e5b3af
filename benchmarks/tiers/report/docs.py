"""Writes the figures of a record into docs/: the report, and what docs/benchmarks.md has between two marks."""

import re
import textwrap
from pathlib import Path

from benchmarks.tiers.record import Record
from benchmarks.tiers.report.html import page
from benchmarks.tiers.report.markdown import figures

DOCS = Path(__file__).parents[3] / "docs"
BEGIN, END = "<!-- figures of tiers, written by `--docs` -->", "<!-- end of the figures of tiers -->"
WIDTH = 100


def write_docs(record: Record, docs: Path = DOCS) -> tuple[Path, Path]:
    """Write both files, and return them."""
    document, report = docs / "benchmarks.md", docs / "reports" / "tiers.html"
    report.parent.mkdir(exist_ok=True)
    document.write_text(with_figures(document.read_text(encoding="utf-8"), record), encoding="utf-8")
    report.write_text(page(record), encoding="utf-8")
    return document, report


def with_figures(text: str, record: Record) -> str:
    """The text of a document with the figures of a record between the marks.

    Raises:
        ValueError: it does not have the marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no {BEGIN} with {END} after it")
    link = "[reports/tiers.html](reports/tiers.html) is the whole report."
    return f"{before}{BEGIN}\n\n{link}\n\n{wrapped(figures(record))}\n{END}{after}"


def wrapped(text: str) -> str:
    """Markdown with lines that fit; those of tables stay."""
    return "\n".join(_wrapped(line) for line in text.splitlines()) + "\n"


def _wrapped(line: str) -> str:
    if re.match(r"\s*\|", line) or len(line) <= WIDTH:
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)

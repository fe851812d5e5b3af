"""Writes a report as one HTML file, which opens offline and runs no script, or as Markdown."""

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from pydantic import ValidationError

from benchmarks.report.chart import drawing
from benchmarks.report.model import Advice, Cell, Details, Facts, Part, Report, Section, Table, Tile, Warnings


def render(report: Report) -> str:
    """Write the whole HTML file."""
    return _template_environment().get_template("page.html").render(report=report)


@cache
def _template_environment() -> Environment:
    loader = FileSystemLoader(Path(__file__).parent)
    found = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    found.filters |= {"drawing": drawing, "slug": _slug, "grouped": _grouped}
    return found


def _slug(title: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", title.lower().replace("’", "")))


def _grouped(parts: list[Part]) -> list[tuple[str, list[Part]]]:
    """Put neighbours of a kind together: tiles, charts and facts go side by side."""
    return [(kind, list(found)) for kind, found in groupby(parts, lambda part: type(part).__name__)]


def text(report: Report, *, heading: bool = True) -> str:
    """Write it as Markdown, without its charts."""
    blocks = [f"# {report.title}", report.facts] if heading else []
    for section in report.sections:
        blocks += [block for block in _section(section, heading=heading) if block]
    return "\n\n".join(blocks) + "\n"


def _section(section: Section, *, heading: bool) -> Iterator[str]:
    if section.parts and section.title and heading:
        yield f"## {section.title}"
    if section.parts:
        yield section.note
    for part in section.parts:
        yield from _part(part)


def _part(part: Part) -> Iterator[str]:
    match part:
        case Table():
            yield _table(part)
        case Tile():
            yield f"- {part.title}: {f'{part.figure} {part.unit}'.strip()} ({'; '.join(part.lines)})"
        case Advice():
            yield "\n\n".join(f"**{about}** {sentence}" if about else sentence for about, sentence in part.sentences)
        case Warnings():
            yield "\n".join(f"- Warning: {line}" for line in part.lines)
        case Facts():
            yield f"**{part.title}**\n\n" + "\n".join(f"- {name}: {value}" for name, value in part.items)
        case Details():
            yield "\n\n".join([f"**{part.title}**", *(f"```\n{each}\n```" for each in part.texts)])
        case str():
            yield part


def _table(table: Table) -> str:
    rule = ["---", *("---" if column in table.words else "---:" for column in table.columns[1:])]
    rows = [[_cell(each) for each in row] for row in table.rows]
    lines = [f"| {' | '.join(row)} |" for row in (table.columns, rule, *rows)]
    return "\n".join([f"**{table.title}**", "", *lines, *(["", table.note] if table.note else [])])


def _cell(found: str | Cell) -> str:
    words = found if isinstance(found, str) else f"{found.text} ({found.small})" if found.small else found.text
    return words.replace("|", "\\|").replace("\n", " ")


def report_command(package: str, description: str | None, report: Callable[[Path], tuple[Report, str | None]]) -> int:
    """Run the command line of `python -m PACKAGE`; the exit code is 1, with a line on stderr, for another file.

    report: makes the report of the file of a record, and the new content of the record where it changes. Each file is
    replaced as a whole.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=description)
    parser.add_argument("record", type=Path, help="the JSON file of a record")
    parser.add_argument("--output", "--html", type=Path, help="the HTML file; default: next to the record")
    options = parser.parse_args()
    record: Path = options.record
    try:
        made, changed = report(record)
        if changed is not None:
            _replace(record, changed)
        _replace(options.output or record.with_suffix(".html"), render(made))
    except (OSError, ValidationError, ValueError) as error:
        reason = str(error).replace("\n", "; ")
        sys.stderr.write(f"triggerlog: {record} cannot be reported: {reason}\n")
        return 1
    return 0


def _replace(path: Path, content: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(content, encoding="utf-8")
    new.replace(path)

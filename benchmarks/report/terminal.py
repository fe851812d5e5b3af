"""The report: tables of figures on a terminal, and as Markdown."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.report.table import Table
from benchmarks.report.tables import conditions, tables
from daemon.tools.console import labelled


def print_report(report: Mapping[str, Any], console: Console) -> None:
    """Print it for a terminal."""
    for table in tables(report):
        shown = RichTable(title=table.title, caption=table.note, box=box.SIMPLE_HEAD, title_justify="left")
        for number, column in enumerate(table.columns):
            shown.add_column(column, justify="right" if number else "left")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
    for name, text in conditions(report):
        console.print(labelled(name, 14, text))


def markdown(report: Mapping[str, Any], command: str) -> str:
    """Write it as Markdown; `command` is what repeats it."""
    parts = [f"Measured with `{command}`:", *(_markdown_table(table) for table in tables(report)), "**Conditions**"]
    parts.append("\n".join(f"- {name}: {text}" for name, text in conditions(report)))
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    rule = ["---", *("---:" for _ in table.columns[1:])]
    lines = [f"| {' | '.join(row)} |" for row in (table.columns, rule, *table.rows)]
    return "\n".join([f"**{table.title}**", "", *lines, "", table.note])

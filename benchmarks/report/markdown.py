"""The report as Markdown: all tables of figures, and what they were measured on."""

from benchmarks.report.run import Run
from benchmarks.report.table import Table
from benchmarks.report.tables import conditions, tables


def markdown(run: Run, command: str) -> str:
    """Write it as Markdown; `command` is what repeats it."""
    parts = [f"Measured with `{command}`:", *(markdown_table(table) for table in tables(run)), "**Conditions**"]
    parts.append("\n".join(f"- {name}: {text}" for name, text in conditions(run)))
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """A table with its title and note."""
    rule = ["---", *("---:" for _ in table.columns[1:])]
    lines = [f"| {' | '.join(row)} |" for row in (table.columns, rule, *table.rows)]
    return "\n".join([f"**{table.title}**", "", *lines, "", table.note])

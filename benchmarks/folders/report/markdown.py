"""The report as Markdown: findings, tables, and what it was measured on."""

from benchmarks.folders.record import Record
from benchmarks.folders.report.findings import findings
from benchmarks.folders.report.tables import facts, tables
from benchmarks.report.markdown import markdown_table
from benchmarks.report.table import Table

FINDINGS_NOTE = (
    "Findings of the paper (COOL for Atlas prompt reconstruction). Each verdict is of the figures beside it; the "
    "commands are below the tables."
)


def finding_table(record: Record) -> Table:
    """A row a finding."""
    rows = tuple((each.claim, each.paper, each.verdict.value, each.measured) for each in findings(record))
    return Table(title="Findings", columns=("", "paper", "verdict", "measured"), rows=rows, note=FINDINGS_NOTE)


def text(record: Record) -> str:
    """Write it."""
    parts = [markdown_table(table) for table in (finding_table(record), *tables(record))]
    parts.append("**Measured on**\n\n" + "\n".join(f"- {name}: {value}" for name, value in facts(record)))
    parts += [f"Note: {note}" for note in record.notes]
    return "\n\n".join(["# Folders: snapshots with a deadline", *parts]) + "\n"

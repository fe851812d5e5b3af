"""The report as Markdown: findings, tables, and what it was measured on."""

from benchmarks.report.markdown import markdown_table
from benchmarks.report.table import Table
from benchmarks.tiers.record import Record
from benchmarks.tiers.report.findings import findings
from benchmarks.tiers.report.tables import facts, tables

FINDINGS_NOTE = (
    "The blog is “The Long Tail - vertical table partitioning” (2015); an aim is one of tiers. Each verdict is of the"
    " figures beside it."
)


def finding_table(record: Record) -> Table:
    """A row a finding."""
    rows = tuple((each.claim, each.paper, each.verdict.value, each.measured) for each in findings(record))
    return Table(
        title="Findings", columns=("", "the blog, or aim", "verdict", "measured"), rows=rows, note=FINDINGS_NOTE
    )


def figures(record: Record) -> str:
    """All of it without a heading."""
    parts = [markdown_table(table) for table in (finding_table(record), *tables(record))]
    parts.append("**Measured on**\n\n" + "\n".join(f"- {name}: {value}" for name, value in facts(record)))
    parts += [f"Note: {note}" for note in record.notes]
    return "\n\n".join(parts) + "\n"


def text(record: Record) -> str:
    """Write it."""
    return f"# Tiers\n\n{figures(record)}"

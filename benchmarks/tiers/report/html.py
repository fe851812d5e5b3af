"""The report as one HTML file: findings and all tables."""

from benchmarks.html.document import document
from benchmarks.html.elements import card, definitions, section, warnings
from benchmarks.html.markup import Markup
from benchmarks.html.table import Column, table
from benchmarks.report.html.figures import figures_section
from benchmarks.tiers.record import Record
from benchmarks.tiers.report.findings import findings
from benchmarks.tiers.report.markdown import FINDINGS_NOTE
from benchmarks.tiers.report.tables import facts, tables

TITLE = "Tiers: old readings on a slow disk"


def page(record: Record) -> str:
    """Write the whole file."""
    on = f"{record.machine.get('processor', '')}, {record.machine.get('cores', '?')} cores · {record.date}"
    sections = [
        warnings(record.notes),
        _findings(record),
        figures_section("Figures", *tables(record), name="figures"),
        section("Measured on", card(definitions(facts(record))), name="machine"),
    ]
    return document(TITLE, on, sections, date=record.date, command="make bench-tiers")


def _findings(record: Record) -> Markup:
    columns = (Column("finding"), Column("the blog, or aim"), Column("verdict"), Column("measured"))
    rows = [("", (each.claim, each.paper, each.verdict.value, each.measured)) for each in findings(record)]
    if not rows:
        return Markup()
    return section("Findings", table("Findings", columns, rows), name="findings", note=FINDINGS_NOTE)

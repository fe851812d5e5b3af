"""Outages: what it costs to be ready for one, and how fast it is made up for."""

from benchmarks.figures import Table, drains, journal_cost
from benchmarks.html.markup import Markup, join, tag
from benchmarks.html.table import Column, table
from benchmarks.measured import Run


def outages(run: Run) -> Markup:
    """The two tables; nothing where neither was measured."""
    found = [part for part in (journal_cost(run), drains(run)) if part is not None]
    if not found:
        return Markup()
    shown = [join([tag("h3", part.title), _table(part), tag("p", part.note, class_="soft")]) for part in found]
    return tag("section", tag("h2", "When the database is away"), *shown, id="outages")


def _table(found: Table) -> Markup:
    columns = [Column(heading, figures=bool(k)) for k, heading in enumerate(found.columns)]
    return table(found.title, columns, [("", row) for row in found.rows])

"""Outages: what it costs to be ready for one, and how fast it is made up for."""

from benchmarks.report.figures import drains, journal_cost
from benchmarks.report.html.markup import Markup, join, tag
from benchmarks.report.html.table import Column, table
from benchmarks.report.measured import Run
from benchmarks.report.table import Table


def outages(run: Run) -> Markup:
    """The two tables; nothing where neither was measured."""
    found = [part for part in (journal_cost(run), drains(run)) if part is not None]
    if not found:
        return Markup()
    return tag("section", tag("h2", "When the database is away"), *map(shown, found), id="outages")


def shown(found: Table) -> Markup:
    """A table under its title, with its note."""
    return join([tag("h3", found.title), _table(found), tag("p", found.note, class_="soft")])


def _table(found: Table) -> Markup:
    columns = [Column(heading, figures=bool(k)) for k, heading in enumerate(found.columns)]
    return table(found.title, columns, [("", row) for row in found.rows])

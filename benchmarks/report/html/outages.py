"""Outages: what the journal costs, and how fast the backlog of an outage is drained."""

from benchmarks.html.elements import section
from benchmarks.html.markup import Markup, join, tag
from benchmarks.html.table import Column, figures, table
from benchmarks.report.run import Run
from benchmarks.report.table import Table
from benchmarks.report.tables import drains, journal_cost


def outages(run: Run) -> Markup:
    """The two tables; nothing where neither was measured."""
    found = [part for part in (journal_cost(run), drains(run)) if part is not None]
    if not found:
        return Markup()
    return section("When the database is away", *map(shown, found), name="outages")


def shown(found: Table) -> Markup:
    """A table under its title, with its note."""
    return join([tag("h3", found.title), _table(found), tag("p", found.note, class_="soft")])


def _table(found: Table) -> Markup:
    first, *others = found.columns
    return table(found.title, (Column(first), *figures(*others)), [("", row) for row in found.rows])

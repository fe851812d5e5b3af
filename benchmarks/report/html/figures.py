"""The tables of a run as sections of the page."""

from benchmarks.html.elements import section
from benchmarks.html.markup import Markup, join, tag
from benchmarks.html.table import NOTHING, Column, figures, table
from benchmarks.report.table import Table


def figures_section(heading: str, *tables: Table | None, name: str) -> Markup:
    """A section of those tables that were measured; empty without one."""
    found = [each for each in tables if each is not None]
    return section(heading, *map(shown, found), name=name) if found else Markup()


def shown(found: Table) -> Markup:
    """A table under its title, with its note."""
    first, *others = found.columns
    cells = table(
        found.title,
        (Column(first or found.title), *figures(*others)),
        [("", [cell or NOTHING for cell in row]) for row in found.rows],
    )
    return join([tag("h3", found.title), cells, tag("p", found.note, class_="soft")])

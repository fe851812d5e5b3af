"""Readers: what they cost the writing, what the governor does about it, and what pages cost the daemon."""

from benchmarks.html.elements import section
from benchmarks.html.markup import Markup
from benchmarks.report.html.outages import shown
from benchmarks.report.reader_tables import governor, page
from benchmarks.report.run import Run


def readers(run: Run) -> Markup:
    """The two tables; nothing where neither was measured."""
    found = [part for part in (governor(run), page(run)) if part is not None]
    if not found:
        return Markup()
    return section("While others read", *map(shown, found), name="reading")

"""Reading: what it costs the writing, what the governor does about it, and what it costs to be looked at."""

from benchmarks.report.html.markup import Markup, tag
from benchmarks.report.html.outages import shown
from benchmarks.report.measured import Run
from benchmarks.report.reading_figures import governor, page


def reading(run: Run) -> Markup:
    """The two tables; nothing where neither was measured."""
    found = [part for part in (governor(run), page(run)) if part is not None]
    if not found:
        return Markup()
    return tag("section", tag("h2", "While others read"), *map(shown, found), id="reading")

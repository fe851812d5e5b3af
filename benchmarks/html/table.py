"""Tables that become cards on a phone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.html.markup import Markup, tag

NOTHING = "–"
"""The text of a cell without a figure."""


@dataclass(frozen=True)
class Column:
    """A column: its heading, whether it holds figures, which stand right, and a class of its own."""

    heading: str
    figures: bool = False
    style: str = ""

    def classes(self, cell: str = "") -> str | None:
        """The classes of a cell; a phone leaves out those that have nothing in them."""
        names = ("figures" if self.figures else "", self.style, "none" if cell == NOTHING else "")
        return " ".join(name for name in names if name) or None


def figures(*headings: str) -> tuple[Column, ...]:
    """Columns of figures."""
    return tuple(Column(heading, figures=True) for heading in headings)


def table(caption: str, columns: Sequence[Column], rows: Iterable[tuple[str, Sequence[str]]]) -> Markup:
    """A table. rows: a class, and a cell a column; the first cell is the row's heading."""
    head = [tag("th", column.heading, scope="col", class_=column.classes()) for column in columns]
    body = []
    for style, cells in rows:
        first, *others = (
            tag(
                "td" if k else "th",
                tag("span", column.heading, class_="label", aria_hidden="true"),
                tag("div", cell),
                scope=None if k else "row",
                class_=column.classes(cell),
            )
            for k, (column, cell) in enumerate(zip(columns, cells, strict=True))
        )
        body.append(tag("tr", first, *others, class_=style or None))
    return tag(
        "table",
        tag("caption", caption, class_="unseen"),
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
    )

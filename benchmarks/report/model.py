"""The model of a report: sections of tables, charts and facts. Each benchmark makes one of its record.

Text may have `code` in backticks. A cell without a figure is "", which is shown as a dash.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A cell of a table: a figure, with its interval or another remark in small print below it.

    style: good, bad or soft; mark: a sign before the text, so that colour alone does not say it.
    """

    text: str
    small: str = ""
    style: str = ""
    mark: str = ""


Cells = Sequence[str | Cell]
"""A row of a table."""


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows. words: further columns of text; all others hold figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Cells]
    note: str = ""
    words: Sequence[str] = ()


@dataclass(frozen=True)
class Axis:
    """An axis of a chart. Limits that are None follow from the values; a linear axis begins at 0 unless `tight`."""

    label: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    tight: bool = False


@dataclass(frozen=True, kw_only=True)
class Series:
    """A series: drawn in one colour, and named in the key.

    kind: `line`, `dots`, `bars` (from x to `until`, from `low` or the axis up to y), `band` (from x to `until` over the
    whole height), `level` (across, at y) or `at` (upright, at x). A y of None breaks a line. low, high: the ends of the
    intervals of lines and dots, None where there is none. titles: what is said of each point. colour: a name of the
    style sheet. dashed: drawn thin.
    """

    name: str = ""
    kind: str = "line"
    x: Sequence[float] = ()
    y: Sequence[float | None] = ()
    until: Sequence[float] = ()
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    titles: Sequence[str] = ()
    colour: str = "blue"
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """A plot of a chart. An axis without a label has no ticks. words: beside the title."""

    y: Axis
    series: Sequence[Series]
    title: str = ""
    words: str = ""


@dataclass(frozen=True)
class Chart:
    """Panels, one below the other, on one axis across. small: several go side by side."""

    title: str
    x: Axis
    panels: Sequence[Panel]
    small: bool = False


@dataclass(frozen=True)
class Tile:
    """One main figure in large print, with its unit and lines of small print."""

    title: str
    figure: str
    unit: str = ""
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class Advice:
    """Sentences that follow from the figures, each with what it is about."""

    sentences: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Warnings:
    """Facts that a reader has to know before trusting a figure."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """Names and values, such as the settings of a server."""

    title: str
    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Details:
    """Preformatted texts that a click unfolds, such as the plan of a statement."""

    title: str
    texts: Sequence[str]


Part = str | Table | Chart | Tile | Advice | Warnings | Facts | Details
"""A part of a section; a str is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A section of the page; the first may be without a title. Parts without content are left out, and so is a section.

    note: a paragraph below the title.
    """

    title: str
    parts: Sequence[Part]
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", [part for part in self.parts if not _is_empty(part)])


def _is_empty(part: Part) -> bool:
    match part:
        case Table(rows=content) | Warnings(lines=content) | Advice(sentences=content) | Facts(items=content):
            return not content
        case Chart(panels=panels):
            return not any(panel.series for panel in panels)
        case _:
            return not part


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report: title, one line with what was measured and on what, its date in UTC, and the command that writes it."""

    title: str
    facts: str
    date: str
    command: str
    sections: Sequence[Section]

    def tables(self) -> list[Table]:
        """Return all tables."""
        return [part for section in self.sections for part in section.parts if isinstance(part, Table)]

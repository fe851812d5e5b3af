"""The model of a report: sections of tables, charts and facts; figures in words, and findings of a paper.

Each benchmark makes a `Report` of its record. Text may have `code` in backticks. A cell without a figure is "", which
is shown as a dash.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.rounds.summary import QUARTILES_FROM, Ratio, Spread


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


# --- words -----------------------------------------------------------------------------------------------------------

AIM = ("aim", "reached")
"""Columns of `aim`."""


def number(value: float) -> str:
    """Write a figure with three digits that count, and thousands set apart: 0.52, 4.13, 76.3, 1,050, 9,621."""
    if not math.isfinite(value):
        return "no limit"
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{decimals}f}"


def shown(value: float | None, divided: float = 1.0) -> str:
    """Write a figure, or nothing."""
    return "" if value is None else number(value / divided)


def whole(value: float) -> str:
    """Write a count that may be a mean: 1, 1.5, 1,700."""
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def milliseconds(value: float) -> str:
    """Write a time in ms, in seconds from ten of them on."""
    return f"{number(value / 1e3)} s" if value >= 10_000 else f"{number(value)} ms"


def times(value: float) -> str:
    """Write a ratio: 0.52, 4.1, 76."""
    return f"{value:.2f}" if value < 1 else f"{value:,.1f}" if value < 10 else f"{value:,.0f}"


def percent(gain: float) -> str:
    """Write the size of a gain: 0.034 is 3 %."""
    return f"{abs(gain) * 100:,.0f} %"


def between(found: Spread) -> str:
    """Write the spread around a median; one round has none."""
    return "" if found.low == found.high else f"{number(found.low)} to {number(found.high)}"


def kind_of_spread(count: int) -> str:
    """Say what a spread over so many values is."""
    return "the quartiles" if count >= QUARTILES_FROM else "the least and the most"


def listed(words: Sequence[str]) -> str:
    """Join with commas, and with `and` before the last."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def counted(count: int, thing: str) -> str:
    """Count things: 1 round, 3 rounds."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def cell(found: Spread, form: str = "") -> Cell:
    """Write a median with its spread below it. form: of `str.format`; by default `number`."""
    if not form:
        return Cell(number(found.median), between(found))
    median, low, high = (form.format(value) for value in (found.median, found.low, found.high))
    return Cell(median, f"{low} to {high}")


def ratio_words(found: Ratio) -> str:
    """Write a ratio with its 95 % interval, where it has one."""
    if found.low is None or found.high is None:
        return f"{times(found.value)} (one round)"
    return f"{times(found.value)} ({times(found.low)} to {times(found.high)})"


def aim(value: float, wanted: float | None, *, at_least: bool) -> tuple[str | Cell, str | Cell]:
    """Write what is aimed at, and whether it is reached; nothing where there is no aim."""
    if wanted is None:
        return "", ""
    reached = value >= wanted if at_least else value <= wanted
    return f"{wanted:g}", Cell("yes", style="good") if reached else Cell("no", style="bad")


# --- findings --------------------------------------------------------------------------------------------------------


class Verdict(StrEnum):
    """The measurement agrees with the paper, or it does not, or it cannot tell."""

    REPRODUCED = "reproduced"
    REFUTED = "refuted"
    UNKNOWN = "not known here"


STYLES = {Verdict.REPRODUCED: "good", Verdict.REFUTED: "bad", Verdict.UNKNOWN: "soft"}


@dataclass(frozen=True)
class Finding:
    """A finding of the paper, and the verdict on it.

    paper: its own figures; empty without. measured: the figures that the verdict follows from. processes: workers of
    visits that it was measured with, where that matters.
    """

    claim: str
    paper: str
    verdict: Verdict
    measured: str
    processes: int = 1


def holds(found: bool) -> Verdict:
    """Judge a figure without an interval."""
    return Verdict.REPRODUCED if found else Verdict.REFUTED


def within(found: Ratio, most: float, least: float = 0.0) -> Verdict:
    """Judge by the whole interval of a ratio: reproduced within the limits, refuted outside them."""
    low, high = (found.value if end is None else end for end in (found.low, found.high))
    if least <= low and high <= most:
        return Verdict.REPRODUCED
    return Verdict.REFUTED if low > most or high < least else Verdict.UNKNOWN


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on all of several, at least one."""
    found = set(verdicts)
    return next(each for each in (Verdict.REFUTED, Verdict.UNKNOWN, Verdict.REPRODUCED) if each in found)


def findings_table(
    findings: Iterable[Finding], note: str, claim: str = "The paper found", there: str = "There"
) -> Table:
    """Make the table of findings."""
    rows = [
        (each.claim, each.paper, Cell(each.verdict, style=STYLES[each.verdict]), each.measured) for each in findings
    ]
    columns = (claim, there, "Here", "Measured")
    return Table(title="Findings", columns=columns, rows=rows, note=note, words=columns[1:])

"""The model of a report, as HTML, as Markdown, and as the shapes of its charts."""

import pytest

from benchmarks.report.model import (
    Advice,
    Axis,
    Cell,
    Chart,
    Details,
    Facts,
    Panel,
    Part,
    Report,
    Section,
    Series,
    Table,
    Tile,
    Warnings,
)
from benchmarks.report.render import drawing, render, text
from tests.benchmarks.report.test_html import Reader
from tests.support.kept_run import HOSTILE

LINE = Series(name="line", x=[0, 1, 2, 3], y=[1.0, None, 3.0, 2.0], low=[0.5], high=[1.5])
PARTS: dict[str, Part] = {
    "paragraph": "of `code` | and words",
    "table": Table(
        "table", ("", "ms"), [("row | one", Cell("3.10", "3.00 to 3.20", "good", "✓")), ("two", "")], "note"
    ),
    "chart": Chart("chart", Axis("s"), [Panel(Axis("ms"), [LINE])]),
    "tile": Tile("tile", "17", "ms", ["small print"]),
    "advice": Advice([("About.", "A sentence.")]),
    "warnings": Warnings(["A warning."]),
    "facts": Facts("facts", [("`setting`", "on")]),
    "details": Details("details", ["SELECT 1"]),
}
EMPTY: list[Part] = [
    "",
    Table("table", ("",), []),
    Chart("chart", Axis("s"), [Panel(Axis("ms"), [])]),
    Advice([]),
    Warnings([]),
    Facts("facts", []),
]


def report(*parts: Part) -> Report:
    return Report(title="Title", facts="facts", date="today", command="make it", sections=[Section("Heading", parts)])


def test_each_kind_of_part_is_written() -> None:
    html, written = render(report(*PARTS.values())), text(report(*PARTS.values()))
    read = Reader(html)
    for words in ("3.10 3.00 to 3.20", "small print", "About. A sentence.", "A warning.", "SELECT 1", "of code | and"):
        assert words in read.text
    assert (read.counted["svg"], read.counted["details"], read.counted["tbody"]) == (1, 1, 1)
    assert "| row \\| one | 3.10 (3.00 to 3.20) |\n| two |  |\n\nnote" in written
    for words in ("## Heading", "- tile: 17 ms (small print)", "**About.** A sentence.", "- `setting`: on", "SELECT 1"):
        assert words in written
    assert "## Heading" not in text(report(*PARTS.values()), heading=False)


@pytest.mark.parametrize("part", EMPTY, ids=lambda part: type(part).__name__)
def test_a_part_without_content_leaves_no_trace(part: Part) -> None:
    assert "<section" not in render(report(part))
    assert "Heading" not in text(report(part))


def test_whatever_a_part_holds_is_escaped() -> None:
    hostile: list[Part] = [
        HOSTILE,
        Table(HOSTILE, (HOSTILE, HOSTILE), [(HOSTILE, Cell(HOSTILE, HOSTILE))], HOSTILE),
        Chart(HOSTILE, Axis(HOSTILE), [Panel(Axis(HOSTILE), [Series(name=HOSTILE, x=[1], y=[1])], HOSTILE, HOSTILE)]),
        Tile(HOSTILE, HOSTILE, HOSTILE, [HOSTILE]),
        Advice([(HOSTILE, HOSTILE)]),
        Warnings([HOSTILE]),
        Facts(HOSTILE, [(HOSTILE, HOSTILE)]),
        Details(HOSTILE, [HOSTILE]),
    ]
    read = Reader(render(report(*hostile)))
    assert "script" not in read.counted
    assert read.text.count("<script>alert('x')</script>") >= 20


def shapes(*series: Series, high: float | None = None) -> list[tuple[str, str]]:
    (plot,) = drawing(Chart("", Axis("", high=4), [Panel(Axis("", high=high), series)])).plots
    return [(shape.style, shape.d) for shape in plot.shapes if shape.style != "grid"]


def test_a_line_is_broken_where_nothing_is_known_and_has_its_intervals() -> None:
    assert shapes(LINE, high=4.0) == [
        ("line blue", "M0.00 75.00M50.00 25.00L75.00 50.00"),
        ("whisker blue", "M0.00 87.50V62.50"),
    ]


def test_bars_stand_on_the_axis_or_on_their_foot_and_the_smallest_is_still_to_be_seen() -> None:
    bars = Series(kind="bars", x=[0, 2], until=[1, 3], y=[2, 0])
    assert [d for _, d in shapes(bars, high=4.0)] == [
        "M0.00 100.00V50.00H25.00V100.00Z",
        "M50.00 100.00V98.50H75.00V100.00Z",
    ]
    ((_, box),) = shapes(Series(kind="bars", x=[0], until=[1], low=[1], y=[3]), high=4.0)
    assert box == "M0.00 75.00V25.00H25.00V75.00Z"
    ((_, band),) = shapes(Series(kind="band", x=[1], until=[2]), high=4.0)
    assert band == "M25.00 100.00V0.00H50.00V100.00Z"


def test_a_level_beyond_the_axis_is_not_drawn() -> None:
    levels = Series(kind="level", y=[1, 9]), Series(kind="at", x=[2])
    assert [d for _, d in shapes(*levels, high=4.0)] == ["M0 75.00H100", "M50.00 0V100"]

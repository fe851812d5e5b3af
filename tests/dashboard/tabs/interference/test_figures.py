"""The figures of an experiment: bands, marks, axes, and how many points a line has."""

import math
from uuid import uuid4

import plotly.graph_objects as go
import pytest

from dashboard.tabs.interference.figures import (
    NAMED,
    POINTS,
    TOP,
    apart,
    dose_figure,
    dose_note,
    dose_points,
    latency_axis,
    readers_at,
    smoothed,
    thinned,
    time_figure,
    time_note,
    under_way,
)
from dashboard.tabs.interference.measured import Shown, by_neighbours, of_live, of_record
from schemas.api.interference import Live, Sample
from schemas.marks import Mark
from tests.page.experiments import record_of

DOSES, PLAIN = of_record(record_of("20260101T000000Z")), of_record(record_of("20251231T120000Z-P"))
MARKED = "rgba(255,212,121,0.3)"


def running(blocks: int, until_s: float) -> Shown:
    """The plain one while it ran, after so many blocks."""
    made = record_of("20251231T120000Z-P")
    samples = [sample for sample in made.timeline if sample.t_s <= until_s]
    live = Live(
        id=made.id,
        settings=made.settings,
        planned=made.planned,
        budget_ms=18.0,
        blocks=made.blocks[:blocks],
        samples=samples,
        next=len(samples),
    )
    return of_live(live)


def sampled(p99s: list[float | None]) -> list[Sample]:
    """Samples with these p99, in ms."""
    return [Sample(t_s=0.5 * i, p99_ms=p99, rate=float(i), backlog=0, readers=0) for i, p99 in enumerate(p99s)]


@pytest.mark.parametrize("shown", [DOSES, PLAIN, running(2, 48.0), running(1, 31.0), running(0, 8.0)])
@pytest.mark.parametrize("mark", [None, 0, 4])
def test_plotly_takes_them(shown: Shown, mark: int | None) -> None:
    for figure in (time_figure(shown, mark), dose_figure(shown, mark)):
        made = go.Figure(figure)
        assert len(made.data) >= 2
        assert made.layout.height > 300


def test_bands_stand_where_readers_were_on_and_those_of_a_mark_stand_out() -> None:
    def bands(mark: int | None) -> list[tuple[float, str]]:
        shapes = time_figure(DOSES, mark)["layout"]["shapes"]
        return [(shape["x0"], shape["fillcolor"]) for shape in shapes if shape["x1"] - shape["x0"] == 20]

    read = [block.begin_s for block in DOSES.blocks if block.kind == "B"]
    assert bands(None) == [(begin, "rgba(156,195,230,0.13)") for begin in read]
    of_four = [block.begin_s for block in DOSES.blocks if block.readers == 4]
    assert [begin for begin, colour in bands(4) if colour == MARKED] == of_four
    assert {colour for begin, colour in bands(4) if begin not in of_four} == {"rgba(156,195,230,0.06)"}
    quiet = [block.begin_s for block in DOSES.blocks if block.kind == "A"]
    assert [begin for begin, colour in bands(0) if colour == MARKED] == quiet
    warm_up = [shape for shape in time_figure(DOSES, None)["layout"]["shapes"] if shape["x1"] - shape["x0"] == 3]
    assert len(warm_up) == len(DOSES.blocks)


def test_words_above_the_bands_say_how_many_readers_and_what_they_do() -> None:
    names = time_figure(PLAIN, None)["layout"]["annotations"]
    first = next(block for block in PLAIN.blocks if block.kind == "B")
    ratio = by_neighbours(PLAIN.blocks, first, "p99_ms")
    assert ratio is not None
    assert names[0]["text"] == f"<b>4 readers</b><br>p99 ×{ratio:.2f}"
    assert names[0]["y"] == TOP
    brief = time_figure(DOSES, None)["layout"]["annotations"]
    assert [name["text"].partition("<br>")[0] for name in brief] == [
        f"<b>{block.readers}</b>" for block in DOSES.blocks if block.kind == "B"
    ]
    assert max(len(name["text"].partition("<br>")[2]) for name in brief) <= len("×0.54")
    many = Shown(**{**vars(DOSES), "blocks": [*DOSES.blocks, *DOSES.blocks]})
    assert len(brief) <= NAMED < 2 * len(brief)
    assert time_figure(many, None)["layout"]["annotations"] == []


def test_a_block_that_is_under_way_has_a_band() -> None:
    shown = running(1, 31.0)
    band = under_way(shown, 31.0)[0]
    assert (band.readers, band.begin_s, band.end_s) == (4, 20.0, 31.0)
    assert time_figure(shown, None)["layout"]["annotations"][0]["text"] == "<b>4 readers</b>"
    assert under_way(running(2, 48.0), 48.0) == []
    assert under_way(PLAIN, 1e6) == []


def test_a_point_knows_the_readers_of_its_block() -> None:
    assert readers_at(PLAIN.blocks, [-1.0, 0.0, 19.9, 20.0, 39.9, 40.0, 1e6]) == [None, 0, 0, 4, 4, 0, None]
    trace = time_figure(PLAIN, None)["data"][0]
    assert trace["customdata"][trace["x"].index(30.0)] == 4


def test_a_line_keeps_its_extremes_and_has_no_more_points_than_a_screen_shows() -> None:
    p99s: list[float | None] = [10.0 + math.sin(i) for i in range(20_000)]
    p99s[7_777], p99s[12_345], p99s[5] = 900.0, 0.01, None
    places = thinned(sampled(p99s))
    assert len(places) <= POINTS
    assert {7_777, 12_345} <= set(places)
    assert places == sorted(places)
    assert thinned(sampled(p99s[:700])) == list(range(700))


def test_what_people_marked_stands_where_it_was_in_the_experiment() -> None:
    began_ms = 1_700_000_000_000.0
    made = [
        Mark(id=uuid4(), time_ns=int((began_ms + 5_000) * 1e6), text="beam study began"),
        Mark(id=uuid4(), time_ns=int((began_ms - 5_000) * 1e6), text="before"),
    ]
    layout = time_figure(PLAIN, None, began_ms, made)["layout"]
    (line,) = [
        shape for shape in layout["shapes"] if shape["type"] == "line" and shape.get("line", {}).get("dash") == "dot"
    ]
    assert (line["x0"], line["x1"]) == (5.0, 5.0)
    assert [one["text"] for one in layout["annotations"]].count("beam study began") == 1
    assert "before" not in [one["text"] for one in layout["annotations"]]


def test_the_rate_is_a_mean_over_four_samples() -> None:
    assert smoothed(sampled([1.0] * 6)) == [None, None, None, 1.5, 2.5, 3.5]
    assert smoothed(sampled([1.0] * 3)) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("values", "budget", "kind", "is_near"),
    [
        ([8.0, 12.0], 20.0, "linear", False),
        ([8.0, 14.0], 20.0, "linear", True),
        ([1.0, 40.0, None, 0.0], 20.0, "log", True),
        ([], 20.0, "linear", False),
        ([8.0], 0.0, "linear", False),
    ],
)
def test_the_axis_of_latency_is_logarithmic_where_values_vary(
    values: list[float | None], budget: float, kind: str, is_near: bool
) -> None:
    axis, drawn = latency_axis(values, budget)
    assert (axis["type"], drawn) == (kind, is_near)
    top = max([*(value for value in values if value), budget if is_near else 1.0])
    assert axis["range"][1] > (math.log10(top) if kind == "log" else top)


def test_the_dose_response_has_intervals_once_it_is_over() -> None:
    figure = dose_figure(DOSES, 4)
    blocks, mean = figure["data"][:2]
    assert mean["x"] == [0, 1, 2, 4, 8]
    assert mean["marker"]["size"] == [9, 9, 9, 13, 9]
    assert all(
        up > 0 and down > 0 for up, down in zip(mean["error_y"]["array"], mean["error_y"]["arrayminus"], strict=True)
    )
    assert len(blocks["x"]) == len(DOSES.blocks)
    assert dose_note(DOSES) == "bars: 95 % confidence; dots: blocks"
    shown = running(3, 60.0)
    assert dose_note(shown) == "dots: blocks; line: their means"
    assert [readers for readers, _ in dose_points(shown)] == [0, 4]
    assert dose_points(shown)[1][1].value == pytest.approx(shown.blocks[1].p99_ms)


def test_notes_name_the_lines_that_are_there() -> None:
    assert time_note(DOSES) == "dashed: median of the blocks without readers; dotted: budget"
    assert time_note(running(0, 8.0)) == ""


def test_numbers_that_would_overlap_are_left_out_of_the_axis() -> None:
    assert apart([0, 1, 2, 4, 8]) == [0, 1, 2, 4, 8]
    assert apart([0, 1, 2, 99, 100]) == [0, 100]
    assert apart([0]) == [0]
    assert apart([]) == []

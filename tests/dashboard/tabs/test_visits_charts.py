import math
from typing import Any

import plotly.graph_objects as go
import pytest
from dash import Patch

from dashboard.tabs.visits import charts
from dashboard.tabs.visits.callbacks import beside, continues
from dashboard.tabs.visits.runs import Known
from schemas.api.visits import TIMES, VisitsFigures
from tests.page.visits import figures_of


def figures(visits: int = 300, points: int = 900, limit_s: float = 0.5, **changes: Any) -> VisitsFigures:
    return VisitsFigures.model_validate(figures_of(visits, points, limit_s) | changes)


def none_yet() -> VisitsFigures:
    columns: dict[str, list[float]] = {name: [] for name in figures().columns}
    fits = dict.fromkeys(("visit_s", "select_s", "store_s"))
    return figures(columns=columns, visits=0, fits=fits, boxes=[], parts={name: [] for name in TIMES}, over=[])


def traces(figure: charts.Figure) -> dict[str, Any]:
    return {trace["name"]: trace for trace in figure["data"]}


@pytest.mark.parametrize("given", [figures(), none_yet()], ids=["some", "none"])
def test_plotly_takes_every_figure(given: VisitsFigures) -> None:
    drawn = [charts.seconds_by_visit(given, scale) for scale in ("linear", "log")]
    for figure in (*drawn, charts.boxes(given), charts.steps(given), charts.over(given)):
        assert go.Figure(figure).layout.height == figure["layout"]["height"]


def test_seconds_are_points_with_lines_the_papers_line_and_the_limit() -> None:
    given = figures()
    drawn = traces(charts.seconds_by_visit(given, "linear"))
    assert [*drawn] == ["total", "select", "store", "total, line", "select, line", "store, line", "paper", "limit"]
    assert drawn["total"]["x"] == list(range(300))
    assert drawn["total"]["y"] == pytest.approx(given.columns["visit_s"], rel=1e-3)
    assert drawn["limit"]["y"] == [0.5, 0.5]
    assert drawn["paper"]["y"] == pytest.approx([0.0485, 0.0485 + 0.164 * 0.299])
    fit = given.fits["visit_s"]
    assert fit is not None
    assert drawn["total, line"]["y"] == pytest.approx([fit.intercept, fit.intercept + fit.slope_per_1000 * 0.299])
    assert charts.seconds_words(given, "linear") == "total grows by 0.148 s in 1,000 visits"


def test_a_line_far_above_the_points_is_told_and_drawn_on_the_logarithmic_axis_alone() -> None:
    paper = {"label": "far away", "intercept": 20.0, "slope_per_1000": 1000.0}
    given = figures(limit_s=10.0, paper=paper)
    linear, log = charts.seconds_by_visit(given, "linear"), charts.seconds_by_visit(given, "log")
    for name, ends in {"limit": [10.0, 10.0], "paper": [20.0, 319.0]}.items():
        assert traces(linear)[name]["y"] == [None, None]
        assert traces(log)[name]["y"] == pytest.approx(ends)
    highest = max(given.columns["visit_s"])
    assert linear["layout"]["yaxis"]["range"] == [0, pytest.approx(1.06 * highest)]
    assert log["layout"]["yaxis"]["type"] == "log"
    assert log["layout"]["yaxis"]["range"][1] == pytest.approx(math.log10(319) + 0.1)
    words = charts.seconds_words(given, "linear")
    assert words.endswith(" · the paper’s line (319.0 s) and the limit of 10 s are above")
    assert charts.seconds_words(figures(limit_s=10.0), "linear").endswith(" · the limit of 10 s is above")
    assert "above" not in charts.seconds_words(given, "log")
    assert charts.seconds_described(given, words).endswith("; the paper’s line: far away")


def test_thinned_points_are_told_to_be_so() -> None:
    given = figures(1200, points=100)
    shown = len(given.columns["visit"])
    assert shown < 1200
    words = charts.seconds_words(given, "linear")
    assert words.endswith(f" · {shown} of 1,200 visits, the extremes included")


def test_a_logarithmic_line_has_no_end_that_is_not_above_zero() -> None:
    fit = {"intercept": -0.1, "slope_per_1000": 1.0, "slope_low": 0.9, "slope_high": 1.1, "visits": 300}
    given = figures(fits={"visit_s": fit, "select_s": None, "store_s": None})
    drawn = traces(charts.seconds_by_visit(given, "log"))
    assert drawn["total, line"]["y"] == [None, pytest.approx(0.199)]
    assert drawn["select, line"]["y"] == [None, None]


def test_a_browser_is_sent_the_points_that_came_since() -> None:
    figure = charts.seconds_by_visit(figures(320), "linear")
    change = charts.grown(figure, 300)
    assert isinstance(change, Patch)
    sent = change.to_plotly_json()["operations"]
    extended = {tuple(one["location"]): one["params"]["value"] for one in sent if one["operation"] == "Extend"}
    assert extended["data", 0, "x"] == list(range(300, 320))
    assert extended["data", 2, "y"] == figure["data"][2]["y"][300:]
    assert {tuple(one["location"]) for one in sent if one["operation"] == "Assign"} == {
        ("layout",),
        *(("data", place) for place in range(3, 8)),
    }


def test_points_are_added_to_those_that_are_drawn_and_to_no_others() -> None:
    now = {"run": "a", "stamp": 8, "scale": "linear", "points": 320}
    drawn = now | {"stamp": 7, "points": 300}
    known = Known(figures=figures(320), of=("running", 320), stamp=8, same=300)
    assert continues(drawn, now, known)
    for other in ({"run": "b"}, {"stamp": 6}, {"scale": "log"}, {"points": 200}):
        assert not continues(drawn | other, now, known)
    assert not continues(None, now, known)
    few = Known(figures=figures(260), of=("running", 260), stamp=8, same=240)
    assert not continues(drawn | {"points": 240}, now | {"points": 260}, few), "they were larger"


def test_boxes_are_quartiles_with_the_whole_range_and_the_mean() -> None:
    given = figures()
    drawn, means = charts.boxes(given)["data"]
    first = given.boxes[0]
    assert [drawn[name][0] for name in ("lowerfence", "q1", "median", "q3", "upperfence")] == [
        first.low,
        first.q1,
        first.median,
        first.q3,
        first.high,
    ]
    assert (drawn["x"], means["y"]) == ([49.5, 149.5, 249.5], [box.mean for box in given.boxes])
    assert means["text"][0].startswith("visits 0–99<br>")
    assert charts.boxes_words(given) == "quartiles, the whole range, ◆ mean · 100 visits per bin"
    assert charts.boxes_described(none_yet()).endswith(": none yet")


def test_steps_that_took_no_time_are_not_drawn() -> None:
    given = figures()
    parts = given.parts | {"commit_s": [0.0] * len(given.boxes)}
    given = figures(parts=parts)
    labels = [label for _, label, _ in charts.STEPS]
    assert [trace["name"] for trace in charts.steps(given)["data"]] == labels[:-1]
    assert "commit" not in charts.steps_described(given)
    assert f"store forced {given.parts['store_forced_s'][-1]:.3f} s" in charts.steps_described(given)


def test_visits_over_the_limit_are_shares_of_a_bin() -> None:
    given = figures()
    shares = [100 * one.fraction for one in given.over]
    assert max(shares) > 0
    drawn = charts.over(given)
    assert drawn["data"][0]["y"] == shares
    assert drawn["data"][0]["text"][0] == "0–99"
    assert (drawn["layout"]["yaxis"]["range"], charts.over_words(given)) == ([0, 5], "took longer than 0.5 s")
    assert charts.over(figures(limit_s=0.2))["layout"]["yaxis"]["range"] == [0, 100]
    assert charts.over_words(figures(limit_s=10.0)) == "none took longer than 10 s"


def test_what_stands_beside_the_charts_goes_with_the_run() -> None:
    said, empty = beside(figures(), "linear"), beside(None, "linear")
    assert said["visits-sizes-note"]["children"] == "149 MiB in total"
    assert said["visits-fits-note"]["children"] == "paper: PostgreSQL on NVMe, 15 x 15"
    assert said["visits-over-drawn"]["aria-label"].startswith("Visits over the limit by bin: ")
    assert len(said["visits-parts-note"]["children"]) == len(charts.STEPS)
    assert {name for name in said if name.endswith("-note")} == empty.keys()
    assert all(props == {"children": ""} for props in empty.values())

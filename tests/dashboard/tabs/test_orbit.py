import base64

import numpy as np
import plotly.graph_objects as go
import pytest

from dashboard.tabs.instruments.orbit import (
    CROWDED,
    POSITION,
    Orbit,
    Plot,
    choices,
    missing_words,
    moved,
    orbit_figure,
    orbit_note,
    orbit_of,
    span_of,
)
from schemas.api.readings import OneTrigger
from schemas.conditions.calibration import BUTTONS, positions

NAMES = ["bpm_000", "bpm_001", "bpm_002"]
NOON_NS = 43_200 * 10**9


def newest(**channels: list[float | None]) -> OneTrigger:
    there = len(next(iter(channels.values())))
    units = dict.fromkeys(channels, "V")
    names, times = NAMES[:there], [NOON_NS] * there
    return OneTrigger(
        group="bpm", run=1, trigger=9000, instruments=names, time_ns=times, channels=channels, units=units
    )


def test_a_position_is_of_the_sums_of_opposite_buttons() -> None:
    one = np.array([1.0])
    x, y = positions(2 * one, 2 * one, one, one)
    assert (x[0], y[0]) == (pytest.approx(20 * 2 / 6), 0.0)
    x, y = positions(2 * one, one, one, 2 * one)
    assert (x[0], y[0]) == (0.0, pytest.approx(10 * 2 / 6))
    assert np.isnan(positions(0 * one, 0 * one, 0 * one, 0 * one)).all()


def test_a_group_of_buttons_or_of_positions_offers_its_position_first() -> None:
    assert choices(list(BUTTONS)) == [POSITION, *BUTTONS]
    assert choices(["x", "y", "sum"]) == [POSITION, "x", "y", "sum"]
    assert choices(["current"]) == ["current"]


def test_a_missing_instrument_leaves_a_gap_in_its_place() -> None:
    orbit = orbit_of(newest(x=[0.5, None], y=[1.0, 2.0]), NAMES, None)
    assert (orbit.choice, orbit.missing) == (POSITION, [2])
    np.testing.assert_equal([plot.values for plot in orbit.plots], [[0.5, np.nan, np.nan], [1.0, 2.0, np.nan]])
    assert orbit_of(newest(current=[3.0]), NAMES, "no such").choice == "current"


def test_an_instrument_that_is_not_known_yet_is_left_out() -> None:
    orbit = orbit_of(newest(current=[1.0, 2.0, 3.0]), ["bpm_002", "bpm_001"], None)
    np.testing.assert_equal(orbit.plots[0].values, [3.0, 2.0])
    assert orbit.missing == []


def test_the_note_tells_trigger_time_and_spread() -> None:
    orbit = orbit_of(newest(x=[0.5, None], y=[3.0, 4.0]), NAMES, None)
    assert orbit_note(orbit, 0.4, is_old=False) == "trigger 9,000 · 12:00:00 UTC · x rms 0.50 V, y rms 3.54 V"
    assert "of 12:00:00 UTC, about 2 min ago" in orbit_note(orbit, 120, is_old=True)
    none = OneTrigger(group="bpm", run=None, trigger=None, instruments=[], time_ns=[], channels={"x": []}, units={})
    assert orbit_note(orbit_of(none, NAMES, None), 0, is_old=False) == "no trigger is stored yet"
    assert orbit_of(none, NAMES, None).missing == [], "nobody is missing from no trigger"


def test_who_is_missing_is_named_up_to_a_dozen() -> None:
    names = [f"bpm_{number}" for number in range(20)]
    few, many = orbit(missing=[3, 5]), orbit(missing=list(range(14)))
    assert missing_words(orbit(missing=[]), names) == ""
    assert missing_words(few, names) == "✕ Missing from this trigger: bpm_3, bpm_5."
    assert missing_words(many, names).endswith("bpm_10, bpm_11 and 2 more.")


def orbit(missing: list[int], size: int = 20) -> Orbit:
    values = np.arange(size, dtype=np.float64)
    values[missing] = np.nan
    plots = [Plot(name=name, unit="mm", values=sign * values) for name, sign in (("x", 1), ("y", -1))]
    return Orbit(trigger=1, time_ms=0.0, missing=missing, choices=[POSITION], choice=POSITION, plots=plots)


def test_the_figure_has_a_line_a_plot_and_a_cross_for_who_is_missing() -> None:
    names = [f"bpm_{number}" for number in range(20)]
    figure = go.Figure(orbit_figure(orbit([4]), names, [(0.0, 20.0), (-20.0, 5.0)]))
    x, x_gone, y, y_gone = figure.data
    values = np.frombuffer(base64.b64decode(x.y["bdata"]), x.y["dtype"])
    np.testing.assert_equal(values[:6], [0, 1, 2, 3, np.nan, 5])
    assert list(x.text) == names
    assert (list(x_gone.x), list(x_gone.y), list(x_gone.text)) == ([4], [0.0], ["bpm_4"])
    assert (y.yaxis, y_gone.yaxis, list(y_gone.y)) == ("y2", "y2", [-20.0])
    layout = figure.layout
    assert layout.yaxis.domain[0] > layout.yaxis2.domain[1], "below each other"
    assert (layout.xaxis.anchor, layout.yaxis.title.text, layout.yaxis2.range) == ("y2", "x (mm)", (-20.0, 5.0))
    assert x.mode == "lines+markers"
    size = CROWDED + 1
    crowded = orbit_figure(orbit([], size), ["n"] * size, [(0.0, 1.0)] * 2)
    assert crowded["data"][0]["mode"] == "lines"


def test_what_travels_each_second_is_small() -> None:
    size = 1000
    names = [f"bpm_{number:04d}" for number in range(size)]
    figure = orbit_figure(orbit([4], size), names, [(0.0, 1000.0), (-1000.0, 0.0)])
    patch = moved(figure).to_plotly_json()
    sent = {tuple(one["location"]): one["params"]["value"] for one in patch["operations"]}
    assert sent["data", 0, "y"] == figure["data"][0]["y"]
    assert sent["data", 3, "x"] == [4]
    assert sent["layout", "yaxis2", "range"] == [-1000.0, 0.0]
    assert ("data", 0, "text") not in sent
    assert len(repr(sent)) < 12_000, "base64 of four bytes a value, and little else"


def test_an_axis_stays_until_a_value_leaves_it_or_most_of_it_is_empty() -> None:
    first = span_of(np.array([-0.4, np.nan, 0.9]), None)
    assert first == pytest.approx((-1.0, 1.5))
    assert span_of(np.array([-0.5, 1.2]), first) == first
    low, high = span_of(np.array([-0.5, 2.0]), first)
    assert low <= -0.5
    assert high > 2.0
    assert span_of(np.array([0.0, 0.1]), first)[1] < 0.3
    assert span_of(np.array([np.nan]), None) == (-1.0, 1.0)
    low, high = span_of(np.array([7.0, 7.0]), None)
    assert low < 7.0 < high


@pytest.mark.parametrize("values", [[1e308, -1e308], [0.0, 5e-324], [3e38, -3e38], [0.0, 2e-45]])
def test_whatever_the_values_the_span_is_finite_and_not_empty(values: list[float]) -> None:
    low, high = span_of(np.array(values), None)
    assert np.isfinite([low, high]).all()
    assert low < high
    figure = orbit_figure(orbit_of(newest(current=[*values]), NAMES, None), NAMES, [(low, high)])
    assert figure["layout"]["yaxis"]["range"] == [low, high]

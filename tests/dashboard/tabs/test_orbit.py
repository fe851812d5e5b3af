import numpy as np
import pytest

from dashboard.tabs.instruments.orbit import BUTTONS, POSITION, choices, position
from dashboard.tabs.instruments.routes import orbit_answer
from schemas.api.readings import Newest

NAMES = ["bpm_000", "bpm_001", "bpm_002"]


def newest(**channels: list[float | None]) -> Newest:
    there = len(next(iter(channels.values())))
    units = dict.fromkeys(channels, "V")
    names, times = NAMES[:there], [5] * there
    return Newest(group="bpm", run=1, trigger=9, instruments=names, time_ns=times, channels=channels, units=units)


def test_a_position_is_of_the_sums_of_opposite_buttons() -> None:
    one = np.array([1.0])
    x, y = position(2 * one, 2 * one, one, one)
    assert (x[0], y[0]) == (pytest.approx(20 * 2 / 6), 0.0)
    x, y = position(2 * one, one, one, 2 * one)
    assert (x[0], y[0]) == (0.0, pytest.approx(10 * 2 / 6))
    assert np.isnan(position(0 * one, 0 * one, 0 * one, 0 * one)).all()


def test_a_group_of_buttons_or_of_positions_offers_its_position_first() -> None:
    assert choices(list(BUTTONS)) == [POSITION, *BUTTONS]
    assert choices(["x", "y", "sum"]) == [POSITION, "x", "y", "sum"]
    assert choices(["current"]) == ["current"]


def test_a_missing_instrument_leaves_a_gap_in_its_place() -> None:
    told = orbit_answer(newest(x=[0.5, None], y=[1.0, 2.0]), NAMES, None)
    assert (told["choice"], told["missing"]) == (POSITION, [2])
    assert [plot["values"] for plot in told["plots"]] == [[0.5, None, None], [1.0, 2.0, None]]
    assert told["plots"][0]["rms"] == 0.5
    assert orbit_answer(newest(current=[3.0]), NAMES, "no such")["choice"] == "current"

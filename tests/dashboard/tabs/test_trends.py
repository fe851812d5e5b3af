"""The trend of an instrument: readings as a line, and what was reduced as a band."""

import pytest

from dashboard.tabs.figures import BAND, trends
from dashboard.tabs.instruments.drawer import note
from schemas.api.readings import ChannelFigures, Readings, Reduced

SECOND_NS = 1_000_000_000


def readings_of(reduced: Reduced | None, **changed: object) -> Readings:
    given: dict[str, object] = {
        "group": "bpm",
        "instrument": 0,
        "name": "bpm_000",
        "stored": 1,
        "cut": False,
        "time_ns": [100 * SECOND_NS],
        "run": [1],
        "trigger": [7],
        "channels": {"x": [0.5]},
        "units": {"x": "mm"},
        "reduced": reduced,
    }
    return Readings.model_validate(given | changed)


def reduced_of(*begins_s: int, coarser: bool = False) -> Reduced:
    values = [float(each) for each in begins_s]
    figures = ChannelFigures(
        n=[3 for _ in values],
        mean=[*values],
        m2=[0.0 for _ in values],
        least=[each - 1 for each in values],
        greatest=[each + 1 for each in values],
    )
    return Reduced(
        asked_step_s=1.0,
        coarser=coarser,
        time_ns=[each * SECOND_NS for each in begins_s],
        step_s=[10.0 for _ in values],
        readings=[3 for _ in values],
        channels={"x": figures},
    )


def test_a_band_is_as_wide_as_its_steps_and_has_gaps_where_they_do_not_touch() -> None:
    found = trends(readings_of(reduced_of(10, 20, 40)), now_ns=200 * SECOND_NS, start_ns=0).to_dict()["data"]
    assert [each["name"] for each in found] == ["least x", "greatest x", "mean of x", "x"]
    least, greatest, mean, line = found
    assert list(mean["x"]) == [10e3, 20e3, 20e3, 20e3, 30e3, 30e3, 40e3, 50e3, 50e3]
    assert list(mean["y"]) == [10, 10, 10, 20, 20, None, 40, 40, None]
    assert list(least["y"])[:2] == [9, 9]
    assert list(greatest["y"])[:2] == [11, 11]
    assert (greatest["fill"], greatest["fillcolor"]) == ("tonexty", BAND)
    assert list(line["y"]) == [0.5]
    assert mean["line"]["color"] != line["line"]["color"]


def test_without_figures_there_is_no_band() -> None:
    found = trends(readings_of(None), now_ns=200 * SECOND_NS, start_ns=0).to_dict()["data"]
    assert [each["name"] for each in found] == ["x"]


@pytest.mark.parametrize(
    ("reduced", "said"),
    [
        (None, "UTC, of which there are no figures."),
        (reduced_of(10), "with the mean, in steps of 10 s."),
        (reduced_of(10, coarser=True), "in steps of 10 s, coarser than the 1 s that fit."),
    ],
)
def test_the_note_names_stretches_and_steps(reduced: Reduced | None, said: str) -> None:
    spans = {"decimated_from_ns": [10 * SECOND_NS], "decimated_to_ns": [20 * SECOND_NS]}
    found = note(readings_of(reduced, **spans), 30 * 86_400)
    assert "1 readings stored in the last 5 minutes" in found
    assert " Reduced: 1970-01-01 00:00:10 to 1970-01-01 00:00:20 UTC" in found
    assert found.endswith(said)
    assert "Reduced" not in note(readings_of(None), 300)

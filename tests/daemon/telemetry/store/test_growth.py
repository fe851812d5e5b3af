"""How fast what is stored grows."""

import pytest

from daemon.telemetry.store import APART_S, DAY_S, OVER_S, STEADY_S, Growth


def test_nothing_is_reckoned_from_sizes_less_than_a_minute_apart() -> None:
    growth = Growth()
    assert growth.age_s(5.0) is None
    assert growth.bytes_a_day("bpm") == (None, 0.0)
    growth.note({"bpm": 100}, 0.0)
    growth.note({"bpm": 900}, APART_S - 1)
    assert growth.bytes_a_day("bpm") == (None, APART_S - 1)
    growth.note({"bpm": 700}, APART_S)
    assert growth.bytes_a_day("bpm") == (pytest.approx(600 / APART_S * DAY_S), APART_S)
    assert growth.age_s(APART_S + 3) == pytest.approx(3.0)


def test_growth_is_of_the_last_day_and_of_the_groups_that_there_are() -> None:
    growth = Growth()
    for second in range(0, int(2 * OVER_S) + 1, 300):
        later = {"toroid": 7} if second > OVER_S else {}
        growth.note({"bpm": second * (1 if second < OVER_S else 3)} | later, second)
    rate, over_s = growth.bytes_a_day("bpm")
    assert rate == pytest.approx(3 * DAY_S)
    assert over_s == OVER_S
    assert growth.bytes_a_day("toroid")[0] == 0.0
    assert growth.bytes_a_day("nobody")[0] is None


def test_the_growth_of_all_groups_is_told_when_it_was_measured_for_an_hour() -> None:
    growth = Growth()
    assert growth.steady_bytes_a_day() is None
    for second in range(0, int(STEADY_S), 60):
        growth.note({"bpm": 3 * second, "toroid": 100}, second)
        assert growth.steady_bytes_a_day() is None
    growth.note({"bpm": 3 * int(STEADY_S), "toroid": 100}, STEADY_S)
    assert growth.steady_bytes_a_day() == pytest.approx(3 * DAY_S)
    growth.note({"bpm": 3 * int(STEADY_S), "toroid": 100, "new": 7}, STEADY_S + 60)
    assert growth.steady_bytes_a_day() is None

import numpy as np
import pytest

from dashboard.feed.history import BUCKET_S, HOUR_S, KEPT_S, LONG_BUCKET_S, RECENT_S, History, thin

T0 = 1_700_000_000_000.0


def filled(seconds: float, *, every: float = 0.25, dip_at: float | None = None) -> History:
    history = History(1)
    for k in range(int(seconds / every)):
        at = k * every
        history.add(T0 + at * 1e3, [90.0 if dip_at is not None and at == dip_at else 100.0])
    return history


def test_the_newest_minutes_are_kept_as_they_came() -> None:
    rows = filled(RECENT_S - 1).rows()
    assert len(rows) == int((RECENT_S - 1) / 0.25)
    assert np.diff(rows[:, 0]).max() == 250.0


def test_days_are_small_and_no_more_than_days() -> None:
    rows = filled(KEPT_S + 4 * HOUR_S, every=2.0).rows()
    assert len(rows) < RECENT_S / 2.0 + 2 * HOUR_S / BUCKET_S + 2 * KEPT_S / LONG_BUCKET_S + 8
    assert KEPT_S - 2 * LONG_BUCKET_S < (rows[-1, 0] - rows[0, 0]) / 1e3 <= KEPT_S + LONG_BUCKET_S
    assert (np.diff(rows[:, 0]) > 0).all()


@pytest.mark.parametrize(("later_s", "within_s"), [(3_000, BUCKET_S), (6_000, LONG_BUCKET_S + BUCKET_S)])
def test_a_dip_of_one_point_is_still_seen_later(later_s: float, within_s: float) -> None:
    rows = filled(later_s, dip_at=100.25).rows()
    (place,) = np.flatnonzero(rows[:, 1] == 90.0)
    assert abs(rows[place, 0] - (T0 + 100_250)) <= within_s * 1e3


def test_thinning_keeps_order_least_and_greatest_of_each_column() -> None:
    rows = np.array([[0, 5.0, 1.0], [1, 9.0, np.nan], [2, 1.0, 3.0], [3, 4.0, 2.0]])
    assert thin(rows).tolist() == [[0, 9.0, 1.0], [3, 1.0, 3.0]]


def test_thinning_leaves_two_rows_and_empty_columns_alone() -> None:
    rows = np.array([[0, np.nan], [1, 2.0]])
    assert thin(rows) is rows
    assert np.isnan(thin(np.array([[0, np.nan], [1, np.nan], [2, np.nan]]))[:, 1]).all()


def test_a_gap_is_marked_and_stays_marked_when_thinned() -> None:
    history = History(1)
    for at in [*np.arange(0, 50, 0.25), *np.arange(90, 90 + RECENT_S + 120, 0.25)]:
        history.add(T0 + at * 1e3, [100.0])
    rows = history.rows()
    gaps = rows[np.isnan(rows[:, 1]), 0]
    assert len(gaps) == 1
    assert 49.0 < (gaps[0] - T0) / 1e3 < 90.0


def test_a_point_that_is_not_newer_is_left_out() -> None:
    history = History(1)
    history.add(T0, [1.0])
    history.add(T0, [2.0])
    history.add(T0 - 5, [3.0])
    assert history.rows().tolist() == [[T0, 1.0]]


def test_a_clock_that_was_set_back_begins_anew() -> None:
    history = filled(600)
    history.add(T0 - 3_600_000, [42.0])
    assert history.rows().tolist() == [[T0 - 3_600_000, 42.0]]


def test_an_empty_history_has_its_columns() -> None:
    assert History(3).rows().shape == (0, 4)

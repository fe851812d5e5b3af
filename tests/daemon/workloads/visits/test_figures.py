import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.workloads.visits.figures import at, bin_visits, boxes, line, over, over_by_bin, students_t, thinned
from schemas.readings import Array

# --- the line --------------------------------------------------------------------------------------------------------


def alike(random: np.random.Generator, n: int, memory: float) -> Array:
    """Noise whose neighbours are correlated: each holds so much of the one before."""
    noise = random.standard_normal(n)
    noise[0] /= np.sqrt(1 - memory**2)
    for k in range(1, n):
        noise[k] += memory * noise[k - 1]
    return noise


@pytest.mark.parametrize(
    ("n", "memory", "widening", "least", "most"),
    [
        (9, 0.0, 0.0, 0.93, 0.98),
        (40, 0.0, 0.0, 0.93, 0.98),
        (300, 0.0, 0.0, 0.93, 0.98),
        (300, 0.8, 0.0, 0.92, 0.98),  # with the usual interval of a slope: 0.49
        (300, 0.0, 3.0, 0.92, 0.98),  # visits scatter more and more
        (300, 0.7, 3.0, 0.91, 0.98),
    ],
)
def test_95_of_100_intervals_hold_the_slope(n: int, memory: float, widening: float, least: float, most: float) -> None:
    random, visits = np.random.default_rng(3), np.arange(100, 100 + n)
    held = 0
    for _ in range(800):
        noise = alike(random, n, memory) * (0.2 + widening * np.arange(n) / n)
        fit = line(visits, 5 + 0.002 * visits + noise)
        assert fit is not None
        held += fit.slope_low <= 2.0 <= fit.slope_high
    # Of 800 the standard error of the part is 0.8 %.
    assert least <= held / 800 <= most


def test_checkpoints_widen_the_interval_and_do_not_make_a_slope() -> None:
    random = np.random.default_rng(4)
    held = 0
    for _ in range(200):
        seconds = 2 + 0.1 * random.standard_normal(400)
        seconds[(np.arange(400) + random.integers(50)) % 50 < 12] += 1
        fit = line(np.arange(400), seconds)
        assert fit is not None
        held += fit.slope_low <= 0 <= fit.slope_high
    assert held >= 180


@given(
    intercept=st.floats(-10, 10),
    slope=st.floats(-1, 1),
    numbers=st.sets(st.integers(0, 10**6), min_size=8, max_size=60),
)
def test_a_straight_line_is_found_in_any_order_and_with_gaps(intercept: float, slope: float, numbers: set[int]) -> None:
    visits = np.random.default_rng(0).permutation(sorted(numbers))
    fit = line(visits, intercept + slope * visits / 1000)
    assert fit is not None
    assert fit.slope_per_1000 == pytest.approx(slope, abs=1e-6)
    assert at(fit, 500) == pytest.approx(intercept + slope / 2, abs=1e-3)
    assert fit.slope_low == pytest.approx(fit.slope_high, abs=1e-5)
    assert fit.visits == len(numbers)


def test_the_points_of_students_distribution_are_right() -> None:
    """Against the table of NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, with more digits."""
    table = {1: 12.706205, 2: 4.302653, 3: 3.182446, 4: 2.776445, 5: 2.570582, 6: 2.446912, 7: 2.364624, 8: 2.306004}
    table |= {10: 2.228139, 29: 2.045230, 30: 2.042272, 100: 1.983972, 999: 1.962341, 1000: 1.962339}
    assert {freedom: pytest.approx(students_t(freedom), abs=1e-6) for freedom in table} == table


def test_of_too_few_visits_there_is_no_line() -> None:
    assert line([], []) is None
    assert line(range(7), [1.0] * 7) is None
    assert line([5] * 20, range(20)) is None
    assert line(range(8), [1.0] * 8) is not None


# --- bins ------------------------------------------------------------------------------------------------------------


def test_boxes_begin_at_multiples_and_leave_out_what_is_empty() -> None:
    visits = [3, 4, 7, 9, 10, 31, 30]
    seconds = [1.0, 2.0, 3.0, 10.0, 5.0, 7.0, 9.0]

    found = boxes(visits, seconds, 10)

    assert [(box.first, box.last) for box in found] == [(3, 9), (10, 10), (30, 31)]
    first, second, last = found
    assert (first.low, first.q1, first.median, first.q3, first.high, first.mean) == (1, 1.75, 2.5, 4.75, 10, 4)
    assert second.low == second.q1 == second.high == second.mean == 5
    assert (last.low, last.high) == (7, 9)
    assert boxes([], [], 10) == []


def test_the_fraction_over_a_limit_is_of_what_took_longer() -> None:
    assert over([9.0, 10.0, 10.1, 30.0], 10.0) == 0.5
    assert over([], 10.0) == 0.0
    found = over_by_bin([0, 1, 10, 11], [9.0, 11.0, 12.0, 13.0], 10.0, 10)
    assert [(each.first, each.last, each.fraction) for each in found] == [(0, 1, 0.5), (10, 11, 1.0)]


@pytest.mark.parametrize(
    ("visits", "width"), [(1, 5), (100, 5), (300, 10), (600, 20), (15_000, 500), (24_000, 1000), (57_000, 2000)]
)
def test_bins_are_round_and_few(visits: int, width: int) -> None:
    assert bin_visits(visits) == width


# --- thinning --------------------------------------------------------------------------------------------------------


@given(n=st.integers(1, 600), points=st.integers(1, 200), seed=st.integers(0, 50))
def test_thinning_loses_no_extreme(n: int, points: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    columns = {"visit": np.arange(n), **{name: random.pareto(1.5, n) for name in ("visit_s", "select_s", "ra")}}

    found = thinned(columns, points)

    rows = found["visit"]
    for name, column in columns.items():
        assert np.array_equal(found[name], column[rows])
        assert found[name].min() == column.min()
        assert found[name].max() == column.max()
    assert (np.diff(rows) > 0).all()
    assert len(rows) <= max(points, 2 * len(columns) + 2)
    assert {rows[0], rows[-1]} == {0, n - 1}
    if n <= points:
        assert len(rows) == n


def test_each_stretch_keeps_its_own_extremes() -> None:
    seconds = np.ones(10_000)
    seconds[::100] = 2.0
    found = thinned({"visit": np.arange(10_000), "visit_s": seconds}, 400)
    assert (found["visit_s"] == 2).sum() >= 90
    assert np.diff(found["visit"]).max() <= 200

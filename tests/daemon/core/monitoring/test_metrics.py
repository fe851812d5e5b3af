"""Latencies and rates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.monitoring.metrics import BOUNDS_MS, Latencies, Rates, Recent
from schemas.api.status import Latency

SECOND = 1_000_000_000


@given(st.lists(st.floats(0.011, 100_000), min_size=1, max_size=200))
def test_percentiles_are_those_of_the_values_within_a_bucket(values: list[float]) -> None:
    latencies = Latencies()
    for value in values:
        latencies.add(value, 1, 5 * SECOND)
    latency = latencies.latency(5 * SECOND)
    assert latency.max == max(values)
    for found, percent in ((latency.p50, 50), (latency.p99, 99)):
        assert found is not None
        exact = np.percentile(values, percent, method="inverted_cdf")
        assert exact / 1.03 <= found <= exact * 1.03


def test_what_is_older_than_ten_seconds_is_forgotten() -> None:
    latencies = Latencies()
    latencies.add(50.0, 1, 3 * SECOND)
    latencies.add(1.0, 1, 9 * SECOND)
    assert latencies.latency(12 * SECOND).max == 50.0
    assert latencies.latency(13 * SECOND).max == 1.0
    assert latencies.latency(30 * SECOND) == Latency(p50=None, p99=None, max=None)
    latencies.add(2.0, 1, 33 * SECOND)
    assert latencies.latency(33 * SECOND).max == 2.0


@pytest.mark.parametrize(("slow", "of", "is_slow"), [(9, 100, False), (11, 100, True), (4, 9, False), (5, 9, True)])
def test_no_single_slow_commit_moves_the_tail(slow: int, of: int, is_slow: bool) -> None:
    latencies = Latencies()
    latencies.add(900.0, slow, SECOND)
    latencies.add(2.0, of - slow, SECOND)
    latency = latencies.latency(SECOND)
    assert latency.tail is not None
    assert (latency.tail > 100, latency.is_p99_known, latency.max) == (is_slow, False, 900.0)


def test_a_thousand_samples_have_a_p99() -> None:
    latencies = Latencies()
    latencies.add(900.0, 9, SECOND)
    latencies.add(2.0, 991, SECOND)
    latency = latencies.latency(SECOND)
    assert latency.is_p99_known
    assert latency.tail == latency.p99 == pytest.approx(2.0, rel=0.03)


def test_buckets_for_prometheus_count_everything() -> None:
    latencies = Latencies()
    for count, value in enumerate((0.1, 1.0, 1.1, 1e6), 1):
        latencies.add(value, count, SECOND)
    assert latencies.buckets.sum() == latencies.fine.sum() == 10
    assert latencies.buckets[BOUNDS_MS.index(1.0)] == 2
    assert latencies.buckets[-1] == 4
    assert latencies.sum_ms == pytest.approx(0.1 + 2 + 3.3 + 4e6)


def test_rates_are_means_over_the_last_second() -> None:
    rates = Rates()
    assert rates.sample(0, 0, 0) == [0.0, 0.0]
    for quarter in range(1, 30):
        found = rates.sample(quarter * SECOND // 4, 50 * quarter, 7 * quarter)
    assert found == pytest.approx([200.0, 28.0])
    for quarter in range(30, 34):
        found = rates.sample(quarter * SECOND // 4, 50 * 29 + 100 * (quarter - 29), 0)
    assert found[0] == pytest.approx(400.0)


def test_slow_rates_are_means_over_longer() -> None:
    rates = Rates()
    for quarter in range(80):
        found = rates.sample(quarter * SECOND // 4, quarter // 2, 0)
    assert found[0] == pytest.approx(2.0, rel=0.1)
    for quarter in range(80, 102):
        found = rates.sample(quarter * SECOND // 4, 39, 0)
    assert found == [0.0, 0.0]


@given(
    st.lists(st.tuples(st.integers(0, 300_000_000), st.integers(1, 1000)), max_size=300),
    st.integers(256, 2_000_000_000),
    st.integers(0, 3_000_000_000),
)
def test_what_is_recent_is_never_too_little_and_hardly_too_much(
    counted: list[tuple[int, int]], keep_ns: int, later_ns: int
) -> None:
    recent, moment, times = Recent(), SECOND, []
    recent.keep(keep_ns)
    for pause_ns, count in counted:
        moment += pause_ns
        times.append((moment, count))
        recent.add(count, moment)
    now = moment + later_ns
    young = sum(count for at, count in times if now - at < keep_ns)
    hardly_older = sum(count for at, count in times if now - at < keep_ns + keep_ns // 256)
    assert young <= recent.count(now) <= hardly_older


def test_what_is_recent_takes_little_memory_at_any_rate() -> None:
    recent = Recent()
    recent.add(5, SECOND)
    assert recent.count(SECOND) == 0  # nothing is looked back for
    recent.keep(600_000_000)
    for commit in range(30_000):
        recent.add(7, SECOND + commit * 100_000)
    assert len(recent._moments) <= 258
    assert recent.count(SECOND + 29_999 * 100_000) == pytest.approx(7 * 6000, rel=1 / 256 + 0.001)
    assert recent.count(10 * SECOND) == 0

"""From the last reading received to the commit acknowledged; pytest-benchmark's time is the p99 of a window."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.measures.latency import Window
from benchmarks.rounds.rounds import RECORDED_CLOCK, Round, replay


@pytest.mark.benchmark(group="latency, p99", timer=RECORDED_CLOCK)
def test_latency(window: Window, latency_rounds: dict[str, list[Round]], benchmark: BenchmarkFixture) -> None:
    """The daemon on every database, and on PostgreSQL the bare loop, in windows that took turns."""
    if window.name not in latency_rounds:
        pytest.skip("its server is not here, or the daemon does not keep up with the rate on it")
    replay(benchmark, latency_rounds[window.name], **window.facts())

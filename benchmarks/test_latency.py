"""From the last reading received to the commit acknowledged; pytest-benchmark's time is the p99 of a window."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.latency import BARE, DAEMON, name
from benchmarks.plan import Plan
from benchmarks.rounds import RECORDED_CLOCK, Round, replay


@pytest.mark.benchmark(group="latency, p99", timer=RECORDED_CLOCK)
@pytest.mark.parametrize("contender", [BARE, DAEMON])
@pytest.mark.parametrize("rate", [10, 100, 1000])
def test_latency(
    contender: str, rate: int, plan: Plan, latency_windows: dict[str, list[Round]], benchmark: BenchmarkFixture
) -> None:
    """The daemon and the bare loop, in windows that took turns."""
    if rate not in plan.rates:
        pytest.skip(f"this plan does not measure at {rate}/s")
    replay(benchmark, latency_windows[name(contender, rate)], contender=contender, rate=rate)

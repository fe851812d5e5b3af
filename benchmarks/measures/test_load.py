"""What the daemon costs; pytest-benchmark's time is CPU seconds a trigger, and seconds a trigger at full speed."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.measures import load
from benchmarks.rounds.plan import Plan
from benchmarks.rounds.rounds import RECORDED_CLOCK, replay
from benchmarks.servers.base import Server


@pytest.mark.benchmark(group="CPU a trigger", timer=RECORDED_CLOCK)
@pytest.mark.parametrize("rate", [10, 100])
def test_cpu(rate: int, server: Server, plan: Plan, benchmark: BenchmarkFixture) -> None:
    """CPU of the daemon's process alone."""
    replay(benchmark, load.cpu(server, plan, rate), backend=server.backend.value, rate=rate)


@pytest.mark.benchmark(group="memory at full speed", timer=RECORDED_CLOCK)
def test_memory(server: Server, plan: Plan, benchmark: BenchmarkFixture) -> None:
    """Resident memory of the daemon's process."""
    if not plan.memory_s:
        pytest.skip("this plan does not measure it")
    found, samples = load.memory(server, plan)
    replay(benchmark, [found], backend=server.backend.value, samples=samples)

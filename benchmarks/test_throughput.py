"""Triggers a second; pytest-benchmark's time is seconds a trigger, so its OPS are triggers a second."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.rounds import RECORDED_CLOCK, Round, replay
from benchmarks.throughput import CONTENDERS


@pytest.mark.benchmark(group="throughput", timer=RECORDED_CLOCK)
@pytest.mark.parametrize("contender", CONTENDERS)
def test_throughput(contender: str, throughput_rounds: dict[str, list[Round]], benchmark: BenchmarkFixture) -> None:
    """Every contender, in rounds that took turns."""
    replay(benchmark, throughput_rounds[contender], contender=contender)

"""Triggers a second; pytest-benchmark's time is seconds a trigger, so its OPS are triggers a second."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.measures.contenders import Contender
from benchmarks.rounds.rounds import RECORDED_CLOCK, Round, replay


@pytest.mark.benchmark(group="throughput", timer=RECORDED_CLOCK)
def test_throughput(
    contender: Contender, throughput_rounds: dict[str, list[Round]], benchmark: BenchmarkFixture
) -> None:
    """Every contender, in rounds that took turns."""
    if contender.name not in throughput_rounds:
        pytest.skip("its server is not here, or does not give that durability")
    replay(benchmark, throughput_rounds[contender.name], **contender.facts())

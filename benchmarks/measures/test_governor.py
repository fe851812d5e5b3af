"""The governor; pytest-benchmark's time is the commit p99 of a block, in seconds."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.measures.governor import BLOCKS, CLIENTS
from benchmarks.rounds.rounds import RECORDED_CLOCK, Round, replay


@pytest.mark.benchmark(group="governor", timer=RECORDED_CLOCK)
@pytest.mark.parametrize("block", BLOCKS)
def test_governor(block: str, governor_blocks: dict[str, list[Round]], benchmark: BenchmarkFixture) -> None:
    """Writing alone, with readers, and with readers that the governor holds back."""
    replay(benchmark, governor_blocks[block], block=block, clients=0 if block == BLOCKS[0] else CLIENTS)

"""Being ready for an outage, and making up for one; pytest-benchmark's time is seconds a trigger, logged or drained."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.measures import outages
from benchmarks.rounds.plan import Plan
from benchmarks.rounds.rounds import RECORDED_CLOCK, Round, replay
from benchmarks.servers.base import Server
from schemas.batch import Layout


@pytest.mark.benchmark(group="journal", timer=RECORDED_CLOCK)
@pytest.mark.parametrize("with_journal", [True, False], ids=["with", "without"])
def test_journal(
    layout: Layout, with_journal: bool, journal_rounds: dict[str, list[Round]], benchmark: BenchmarkFixture
) -> None:
    """The daemon at full speed, in rounds that took turns."""
    name = outages.journal_name(layout, with_journal=with_journal)
    replay(benchmark, journal_rounds[name], layout=layout.value, with_journal=with_journal)


@pytest.mark.benchmark(group="drain", timer=RECORDED_CLOCK)
def test_drain(layout: Layout, server: Server, plan: Plan, benchmark: BenchmarkFixture) -> None:
    """What waited while the database was away, with live triggers coming in all the time."""
    found = outages.drain(server, layout, plan)
    replay(benchmark, found, layout=layout.value, live_rate=outages.LIVE_RATE, outage_s=plan.outage_s)

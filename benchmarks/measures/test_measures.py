"""The measures, each in tests that are named after it, with what pytest-benchmark's time is there."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.conditions import measure as conditions
from benchmarks.measures import governor, load, outages, pages
from benchmarks.measures.contenders import Contender
from benchmarks.measures.latency import Window
from benchmarks.rounds.plan import Plan
from benchmarks.rounds.rounds import RECORDED_CLOCK, Round, replay
from benchmarks.servers.base import Server
from schemas.batch import Layout

Rounds = dict[str, list[Round]]


@pytest.mark.benchmark(group="throughput", timer=RECORDED_CLOCK)
def test_throughput(contender: Contender, throughput_rounds: Rounds, benchmark: BenchmarkFixture) -> None:
    """Every contender, in rounds that took turns: seconds a trigger, so that OPS are triggers a second."""
    if contender.name not in throughput_rounds:
        pytest.skip("its server is not here, or does not give that durability")
    replay(benchmark, throughput_rounds[contender.name], **contender.facts())


@pytest.mark.benchmark(group="latency, p99", timer=RECORDED_CLOCK)
def test_latency(window: Window, latency_rounds: Rounds, benchmark: BenchmarkFixture) -> None:
    """The daemon on every database, and on PostgreSQL the bare loop, in windows that took turns.

    The time is the p99 of a window, from the last reading received to the commit acknowledged.
    """
    if window.name not in latency_rounds:
        pytest.skip("its server is not here, or the daemon does not keep up with the rate on it")
    replay(benchmark, latency_rounds[window.name], **window.facts())


@pytest.mark.benchmark(group="CPU a trigger", timer=RECORDED_CLOCK)
@pytest.mark.parametrize("rate", [10, 100])
def test_load_cpu(rate: int, server: Server, plan: Plan, benchmark: BenchmarkFixture) -> None:
    """CPU of the daemon's process alone: CPU seconds a trigger."""
    replay(benchmark, load.cpu(server, plan, rate), backend=server.backend.value, rate=rate)


@pytest.mark.benchmark(group="memory at full speed", timer=RECORDED_CLOCK)
def test_load_memory(server: Server, plan: Plan, benchmark: BenchmarkFixture) -> None:
    """Resident memory of the daemon's process; the time is seconds a trigger at full speed."""
    if not plan.memory_s:
        pytest.skip("this plan does not measure it")
    found, samples = load.memory(server, plan)
    replay(benchmark, [found], backend=server.backend.value, samples=samples)


@pytest.mark.benchmark(group="journal", timer=RECORDED_CLOCK)
@pytest.mark.parametrize("with_journal", [True, False], ids=["with", "without"])
def test_outages_journal(
    layout: Layout, with_journal: bool, journal_rounds: Rounds, benchmark: BenchmarkFixture
) -> None:
    """The daemon at full speed, in rounds that took turns: seconds a trigger that was logged."""
    name = outages.journal_name(layout, with_journal=with_journal)
    replay(benchmark, journal_rounds[name], layout=layout.value, with_journal=with_journal)


@pytest.mark.benchmark(group="drain", timer=RECORDED_CLOCK)
def test_outages_drain(layout: Layout, server: Server, plan: Plan, benchmark: BenchmarkFixture) -> None:
    """What waited while the database was away, with live triggers coming in all the time: seconds a trigger drained."""
    found = outages.drain(server, layout, plan)
    replay(benchmark, found, layout=layout.value, live_rate=outages.LIVE_RATE, outage_s=plan.outage_s)


@pytest.mark.benchmark(group="governor", timer=RECORDED_CLOCK)
@pytest.mark.parametrize("block", governor.BLOCKS)
def test_governor(block: str, governor_blocks: Rounds, benchmark: BenchmarkFixture) -> None:
    """Writing alone, with readers, and with readers that the governor holds back: commit p99 of a block, in seconds."""
    clients = 0 if block == governor.BLOCKS[0] else governor.CLIENTS
    replay(benchmark, governor_blocks[block], block=block, clients=clients)


@pytest.mark.benchmark(group="page", timer=RECORDED_CLOCK)
@pytest.mark.skipif(pages.missing() is not None, reason=pages.missing() or "")
@pytest.mark.parametrize("audience", pages.AUDIENCES, ids=[audience.name for audience in pages.AUDIENCES])
def test_page(audience: pages.Audience, page_rounds: Rounds, benchmark: BenchmarkFixture) -> None:
    """CPU of daemon and page, and what comes to a browser: CPU seconds of the daemon a second."""
    replay(benchmark, page_rounds[audience.name], pages=audience.pages, browsers=audience.browsers)


@pytest.mark.benchmark(group="conditions", timer=RECORDED_CLOCK)
def test_conditions(
    condition: conditions.Contender, condition_rounds: dict[str, conditions.Found], benchmark: BenchmarkFixture
) -> None:
    """Strategies, requests and orders: seconds of the median read, or by the rate of requests, or of an order."""
    if condition.name not in condition_rounds:
        pytest.skip("its server is not here")
    found = condition_rounds[condition.name]
    replay(benchmark, found.rounds, **condition.facts(), query_plan=found.plan)

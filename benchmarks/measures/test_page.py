"""What the page costs; pytest-benchmark's time is CPU seconds of the daemon a second."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.measures import pages
from benchmarks.measures.pages import AUDIENCES, Audience
from benchmarks.rounds.rounds import RECORDED_CLOCK, Round, replay


@pytest.mark.benchmark(group="page", timer=RECORDED_CLOCK)
@pytest.mark.skipif(pages.missing() is not None, reason=pages.missing() or "")
@pytest.mark.parametrize("audience", AUDIENCES, ids=[audience.name for audience in AUDIENCES])
def test_page(audience: Audience, page_rounds: dict[str, list[Round]], benchmark: BenchmarkFixture) -> None:
    """CPU of daemon and page, and what comes to a browser."""
    replay(benchmark, page_rounds[audience.name], pages=audience.pages, browsers=audience.browsers)

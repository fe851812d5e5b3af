"""What a workload measures of its clients' waits."""

import asyncio

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from backends.ending import end_tasks
from daemon.workloads.frame.messages import decoder
from daemon.workloads.readers.clients import Clients, report_of
from daemon.workloads.readers.manager import Figures
from daemon.workloads.readers.measuring import Measured, new_histogram, percentiles_ms, record
from daemon.workloads.readers.messages import Admission, Report
from schemas.config import Workload
from schemas.config.workloads import WorkloadKind
from tests.support.pipelines import eventually


def measured(period_s: float = 0.0, deadline_s: float = 1.0) -> Measured:
    return Measured(deadline_s=deadline_s, period_s=period_s, now_s=0.0)


def counts(histogram: HdrHistogram) -> np.ndarray:
    return np.ctypeslib.as_array(histogram.counts)


def test_a_stall_counts_as_all_the_waits_that_it_kept_from_being_asked() -> None:
    histogram = new_histogram()
    record(histogram, 1.0, 0.01)
    assert histogram.get_total_count() == 100
    assert histogram.get_value_at_percentile(50) == pytest.approx(500_000, rel=0.02)
    record(histogram, 0.009, 0.01)  # in time: itself alone
    assert histogram.get_total_count() == 101


@given(latency_us=st.integers(1, 5_000_000), period_us=st.integers(10_000, 10_000_000))
def test_up_to_a_thousand_waits_are_those_of_the_library(latency_us: int, period_us: int) -> None:
    ours, theirs = new_histogram(), new_histogram()
    record(ours, latency_us / 1e6, period_us / 1e6)
    theirs.record_corrected_value(latency_us, period_us)
    assert np.array_equal(counts(ours), counts(theirs))


def test_a_short_period_costs_no_more_and_keeps_number_and_percentiles() -> None:
    ours, theirs = new_histogram(), new_histogram()
    record(ours, 10.0, 0.0001)
    theirs.record_corrected_value(10_000_000, 100)
    assert ours.get_total_count() == theirs.get_total_count() == 100_000
    for percent in (10, 50, 99, 100):
        assert ours.get_value_at_percentile(percent) == pytest.approx(theirs.get_value_at_percentile(percent), rel=0.01)


def test_percentiles_are_those_of_the_library() -> None:
    histogram = new_histogram()
    for value in np.random.default_rng(5).lognormal(9, 2, 2000):
        histogram.record_value(int(value) + 1)
    expected = [histogram.get_value_at_percentile(percent) / 1000 for percent in (0.1, 50, 99, 100)]
    assert percentiles_ms(histogram, counts(histogram), 0.1, 50, 99, 100) == expected
    assert percentiles_ms(histogram, counts(new_histogram()), 50) == [None]


def test_rates_and_percentiles_are_of_the_last_ten_seconds() -> None:
    clients = measured(deadline_s=0.5)
    for second in range(30):
        slow = second < 15
        for _ in range(4):
            clients.answered(2.0 if slow else 0.1, 10, 0.0)
        lately = clients.lately(second + 1.0)
    assert (clients.cycles, clients.in_time, clients.rows) == (120, 60, 1200)
    assert lately.rate == pytest.approx(4)
    assert lately.row_rate == pytest.approx(40)
    assert lately.p99_ms == pytest.approx(100, rel=0.01)
    assert lately.max_ms == pytest.approx(100, rel=0.01)
    assert clients.lately(50.0).rate == 0


def test_a_problem_is_told_for_ten_seconds_and_is_news_once() -> None:
    clients = measured()
    assert [clients.unanswered("away", second) for second in (1.0, 2.0)] == [True, False]
    assert clients.problem(11.0) == "away"
    assert clients.problem(12.5) is None
    assert clients.unanswered("away", 12.5)


class Slow:
    """Answers after a while that the test says."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()

    async def ask(self, client: int) -> int:
        self.asked += 1
        await self.answers.wait()
        return 7


def stretch_of(clients: Clients) -> tuple[int, int, int]:
    """Its number, the questions that wait, and the answers."""
    found = report_of(clients, 0.0).stretch
    assert found is not None
    return found.number, found.asking, found.totals.cycles


async def test_a_stretch_has_the_questions_that_were_due_in_it_whenever_they_were_answered() -> None:
    questions = Slow()
    workload = Workload(name="slow", kind=WorkloadKind.NEWEST, clients=3)
    clients = Clients(workload, questions, Admission(clients=1))
    asking = asyncio.create_task(clients.run())
    await eventually(lambda: questions.asked == 1)  # in the warm-up: of no stretch
    clients.admit(Admission(clients=3, stretch=1))
    await eventually(lambda: questions.asked == 3)
    clients.admit(Admission(clients=0))
    assert stretch_of(clients) == (1, 2, 0)
    questions.answers.set()  # after its end
    await eventually(lambda: clients.asking == 0)
    assert stretch_of(clients) == (1, 0, 2)
    assert clients.measured.cycles == 3
    clients.admit(Admission(clients=0, stretch=2))
    assert stretch_of(clients) == (2, 0, 0)
    await end_tasks(asking)


async def test_a_report_comes_as_it_was_sent() -> None:
    clients = Clients(Workload(name="slow", kind=WorkloadKind.NEWEST), Slow(), Admission(clients=1, stretch=3))
    clients.stretch.measured.answered(0.25, 7, 0.5)
    clients.measured.unanswered("away", 1.0)
    sent = report_of(clients, 1.5)
    report = decoder(Report)(sent.line())
    assert report == sent
    assert report.stretch is not None
    found = Figures().and_then(report.stretch).and_then(report.stretch)  # of two processes
    assert found.totals.rows == 14
    assert np.array_equal(counts(found.latency), 2 * counts(clients.stretch.measured.latency))

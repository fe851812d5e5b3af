"""Metrics for Prometheus of mock DIA visits."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from schemas.api.status import Status
from schemas.api.visits import TIMES

PARTS = ("visit_s", "select_s", "store_s", *TIMES, "dia_s")


def visiting(status: Status) -> Iterator[Metric]:
    """All of them; without a run since the daemon started there is nothing but that none runs."""
    run = status.visits
    yield GaugeMetricFamily(
        "triggerlog_visits_running",
        "1 while visits are run, also between two of them.",
        value=float(run is not None and not run.state.is_over),
    )
    done = CounterMetricFamily("triggerlog_visits_done", "Visits that are in the database.")
    wanted = GaugeMetricFamily("triggerlog_visits_wanted", "Visits that there are to be in all.")
    over = GaugeMetricFamily("triggerlog_visits_over_limit", "Fraction of the run's visits that took over limit_s.")
    slow = GaugeMetricFamily("triggerlog_visits_slow", "Visits in a row, up to the last, that took too long.")
    left = GaugeMetricFamily("triggerlog_visits_left_seconds", "Estimate of the time left.")
    seconds = GaugeMetricFamily("triggerlog_visits_seconds", "What the last visit took, by part.", labels=["part"])
    compactions = CounterMetricFamily("triggerlog_visits_compactions", "Tables of ended periods that were compacted.")
    compact = CounterMetricFamily("triggerlog_visits_compaction_seconds", "What that took, between the visits.")
    if run is not None:
        compactions.add_metric([], run.compactions)
        compact.add_metric([], run.compact_s)
        done.add_metric([], run.done)
        wanted.add_metric([], run.visits)
        slow.add_metric([], run.slow)
        if run.over_limit is not None:
            over.add_metric([], run.over_limit)
        if run.remaining_s is not None:
            left.add_metric([], run.remaining_s)
        if run.last is not None:
            for part in PARTS:
                seconds.add_metric([part.removesuffix("_s")], getattr(run.last, part))
    yield from (done, wanted, over, slow, left, seconds, compactions, compact)

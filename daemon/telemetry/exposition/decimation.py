"""Metrics for Prometheus of what decimation has reduced."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from schemas.api.status import Status
from schemas.decimation import SECOND_NS


def reducing(status: Status) -> Iterator[Metric]:
    """All of them; nothing where nothing is to be reduced."""
    found = status.decimation
    if found is None:
        return
    for key, text, total in (
        ("periods", "Partitions of readings that decimation has reduced, ever.", found.periods),
        ("readings", "Readings that are there no more as they were, ever.", found.readings),
        ("bytes", "What readings of these partitions took of the database's disk before.", found.size_bytes),
    ):
        yield CounterMetricFamily(f"triggerlog_decimation_reduced_{key}", text, value=total)
    last_ns = None if found.last is None else found.last.at_ns
    next_ns = None if found.next is None else found.next.at_ns
    for key, text, time_ns in (
        ("checked", "When it was last looked what has to be reduced, seconds since 1970.", found.checked_ns),
        ("last_reduced", "When a partition was reduced last, seconds since 1970.", last_ns),
        ("next", "When the next partition becomes too old, seconds since 1970.", next_ns),
    ):
        if time_ns is not None:
            yield GaugeMetricFamily(f"triggerlog_decimation_{key}_seconds", text, value=time_ns / SECOND_NS)
    yield GaugeMetricFamily(
        "triggerlog_decimation_waiting", "Partitions that have to be reduced now.", value=float(found.waiting)
    )
    yield GaugeMetricFamily(
        "triggerlog_decimation_has_problem",
        "Whether something could not be reduced.",
        value=float(found.problem is not None),
    )

"""Metrics for Prometheus of what retention has dropped."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from schemas.api.status import Status


def dropping(status: Status) -> Iterator[Metric]:
    """All of them; nothing before the daemon knows."""
    found = status.retention
    if found is None:
        return
    for key, text, total in (
        ("periods", "Partitions of readings that retention has dropped, ever.", found.periods),
        ("readings", "Readings that retention has dropped, ever.", found.readings),
        ("bytes", "What these took of the database's disk.", found.size_bytes),
    ):
        yield CounterMetricFamily(f"triggerlog_retention_dropped_{key}", text, value=total)
    yield GaugeMetricFamily(
        "triggerlog_retention_limits_not_met",
        "Limits that are not met with all that may be dropped.",
        value=float(len(found.short)),
    )

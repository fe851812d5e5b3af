"""Metrics for Prometheus of the server of conditions."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from schemas.api.status import Status
from schemas.states import ConditionsState


def serving(status: Status) -> Iterator[Metric]:
    """All of them; nothing where the daemon runs no server."""
    server = status.conditions
    if server is None:
        return
    state = GaugeMetricFamily("triggerlog_conditions_state", "1 for the state of the server.", labels=["state"])
    for each in ConditionsState:
        state.add_metric([each], float(each is server.state))
    requests = CounterMetricFamily("triggerlog_conditions_requests", "Answers.", labels=["route", "status"])
    for route, by_status in server.requests.items():
        for code, count in by_status.items():
            requests.add_metric([route, code], count)
    latency = GaugeMetricFamily(
        "triggerlog_conditions_latency_seconds",
        "Of questions for what is valid, in the server, percentiles of the last ten seconds.",
        labels=["quantile"],
    )
    for quantile, value in (("0.5", server.p50_ms), ("0.99", server.p99_ms)):
        if value is not None:
            latency.add_metric([quantile], value / 1e3)
    yield from (state, requests, latency)
    for key, text, total in (
        ("memory_hits", "Questions for what is valid that were answered from memory.", server.memory_hits),
        ("database_reads", "Questions for what is valid that were answered from the database.", server.database_reads),
    ):
        yield CounterMetricFamily(f"triggerlog_conditions_{key}", text, value=total)
    for key, text, amount in (
        ("processes", "Processes of the server that answer.", float(server.running)),
        ("tags_in_memory", "Tags in memory, most of any process.", float(server.tags_in_memory)),
        ("memory_bytes", "What tags and answers take, most of any process.", server.memory_mib * 2**20),
        ("memory_limit_bytes", "What they may take in each process.", server.memory_limit_mib * 2**20),
    ):
        yield GaugeMetricFamily(f"triggerlog_conditions_{key}", text, value=amount)

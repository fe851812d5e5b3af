"""Metrics for Prometheus of tiers: what lies where, how hot it is, and what was moved."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from schemas.api.status import Status
from schemas.api.tiers import TierStatus

_OF_TIER: tuple[tuple[str, str, Callable[[TierStatus], float]], ...] = (
    ("bytes", "What lies in the tier, of all groups.", lambda tier: tier.size_bytes),
    ("partitions", "Partitions with readings that lie in the tier.", lambda tier: tier.partitions),
    (
        "heat",
        "Seconds a day that readers of what lies in the tier wait longer, or would, on a slow disk.",
        lambda tier: tier.heat_s_a_day,
    ),
)


def tiering(status: Status) -> Iterator[Metric]:
    """All of them; nothing without tiers."""
    found = status.tiers
    if found is None:
        return
    for key, text, value in _OF_TIER:
        family = GaugeMetricFamily(f"triggerlog_tier_{key}", text, labels=["tier"])
        for tier in found.tiers:
            family.add_metric([tier.name], float(value(tier)))
        yield family
    limit = GaugeMetricFamily("triggerlog_tier_limit_bytes", "Most that may lie in the tier.", labels=["tier"])
    for tier in found.tiers:
        if tier.max_bytes is not None:
            limit.add_metric([tier.name], tier.max_bytes)
    yield limit
    for key, text, total in (
        ("moves", "Partitions moved to another tier.", found.moved),
        ("copies_thrown_away", "Copies thrown away, since readings came for the partition.", found.thrown_away),
        ("moves_failed", "Moves that the database refused.", found.failed),
    ):
        yield CounterMetricFamily(f"triggerlog_tier_{key}", text, value=total)

"""Metrics of old readings: what was dropped, reduced and moved."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from schemas.api.status import Status
from schemas.api.tiers import TierStatus
from schemas.decimation import SECOND_NS


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

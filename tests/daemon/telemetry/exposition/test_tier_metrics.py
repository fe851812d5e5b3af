"""The metrics of tiers."""

import time

from daemon.telemetry.exposition.old_readings import tiering
from schemas.api.tiers import TiersStatus, TierStatus
from tests.page.served import snapshot


def test_each_tier_has_its_bytes_limit_and_heat_and_moves_are_counted() -> None:
    tiers = [
        TierStatus(name="fast", place=None, size_bytes=7, partitions=2, max_bytes=9, heat_s_a_day=1.5),
        TierStatus(name="slow", place="slow", size_bytes=5, partitions=1, max_bytes=None),
    ]
    found = TiersStatus(tiers=tiers, moved=3, thrown_away=2, failed=1)
    status = snapshot(1, time.time_ns()).model_copy(update={"tiers": found})
    told = {
        (sample.name, sample.labels.get("tier")): sample.value
        for metric in tiering(status)
        for sample in metric.samples
    }
    assert told == {
        ("triggerlog_tier_bytes", "fast"): 7,
        ("triggerlog_tier_bytes", "slow"): 5,
        ("triggerlog_tier_partitions", "fast"): 2,
        ("triggerlog_tier_partitions", "slow"): 1,
        ("triggerlog_tier_heat", "fast"): 1.5,
        ("triggerlog_tier_heat", "slow"): 0,
        ("triggerlog_tier_limit_bytes", "fast"): 9,
        ("triggerlog_tier_moves_total", None): 3,
        ("triggerlog_tier_copies_thrown_away_total", None): 2,
        ("triggerlog_tier_moves_failed_total", None): 1,
    }
    assert not list(tiering(snapshot(1, time.time_ns())))

"""What tiers need to know to plan: the tiers of a configuration, and the partitions as they lie in them."""

from collections.abc import Mapping, Sequence

from backends.base import Partition
from daemon.retention.limits import states_of
from daemon.retention.planner import DAY_NS, GIB
from daemon.tiers.planner import Plan, Tier, plan
from schemas.config import Config, GroupConfig
from schemas.retention import Dropped


def tiers_of(config: Config) -> list[Tier]:
    """The tiers of a configuration."""
    return [
        Tier(
            name=tier.name,
            place=tier.place,
            max_bytes=None if tier.max_gib is None else int(tier.max_gib * GIB),
            after_ns=None if tier.after_days is None else int(tier.after_days * DAY_NS),
        )
        for tier in config.tiers
    ]


def planned(
    config: Config,
    partitions: Mapping[str, Sequence[Partition]],
    dropped: Mapping[str, Sequence[Dropped]],
    waited_for: Mapping[str, dict[str, str]],
    *,
    newest: Mapping[str, int],
    now_ns: int,
) -> Plan:
    """What to move now, of what a store says; arguments as of `daemon.retention.limits.states_of`."""
    return plan(tiers_of(config), states_of(config, partitions, dropped, waited_for, newest=newest), now_ns)


def aging(config: Config) -> list[GroupConfig]:
    """The groups whose partitions move by age, and that have a ledger."""
    return [*config.trigger_groups] if any(tier.after_days is not None for tier in config.tiers) else []

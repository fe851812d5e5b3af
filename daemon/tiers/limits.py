"""What tiers need to know to plan: the tiers of a configuration, and the partitions as they lie in them."""

from collections.abc import Mapping, Sequence

from backends.base import Partition
from daemon.retention.limits import states_of
from daemon.retention.planner import DAY_NS, GIB
from daemon.tiers.heat import DAY_S, Heat
from daemon.tiers.planner import Access, Plan, Tier, plan
from schemas.config import Config, GroupConfig, Policy
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
    heat: Heat,
) -> Plan:
    """What to move now, of what a store says; arguments as of `daemon.retention.limits.states_of`."""
    states = states_of(config, partitions, dropped, waited_for, newest=newest)
    return plan(tiers_of(config), states, now_ns, _access_of(config, heat))


def mib_per_s_of(config: Config, tier: str) -> float:
    """How fast readings move into a tier at most, in MiB/s."""
    return next(each.mib_per_s for each in config.tiers if each.name == tier)


def half_life_s(config: Config) -> float:
    """The half-life of heat."""
    return config.tiering.half_life_days * DAY_S


def _access_of(config: Config, heat: Heat) -> Access | None:
    policy = config.tiering.policy
    if policy is Policy.AGE:
        return None
    return Access(heats=heat.all(), half_life_s=heat.half_life_s, with_age=policy is Policy.BOTH)


def aging(config: Config) -> list[GroupConfig]:
    """The groups whose partitions move by age, and that have a ledger."""
    return [*config.trigger_groups] if any(tier.after_days is not None for tier in config.tiers) else []

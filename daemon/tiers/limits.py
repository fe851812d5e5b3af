"""The state that tiers plan by: tiers of a configuration, and partitions in them; and a move that a person orders."""

from collections.abc import Mapping, Sequence

from backends.base import Partition
from daemon.retention.limits import states_of
from daemon.retention.planner import DAY_NS, GIB, kept_of, old_of, period_of
from daemon.tiers.heat import DAY_S, Heat
from daemon.tiers.planner import Access, Plan, PlannedMove, Tier, name_of, plan
from schemas.config import Config, GroupConfig, Policy
from schemas.config.retention import NEWEST
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


# --- a move that a person orders -------------------------------------------------------------------------------------

ELSEWHERE = "(no tier)"


class MoveRefused(Exception):
    """It cannot be moved: which part of the order is wrong, and why.

    is_there: whether there is what the order names; else it has another name.
    """

    def __init__(self, part: str, problem: str, *, is_there: bool = True) -> None:
        super().__init__(problem)
        self.part = part
        self.is_there = is_there


def move_by_hand(
    config: Config,
    partitions: Mapping[str, Sequence[Partition]],
    group: str,
    partition: str,
    tier: str,
    *,
    now_ns: int,
) -> PlannedMove | None:
    """The move that is ordered; None where the partition lies there already.

    Raises:
        MoveRefused: it cannot be.
    """
    tiers = tiers_of(config)
    target = next((each for each in tiers if each.name == tier), None)
    if target is None:
        others = ", ".join(each.name for each in tiers) or "none at all"
        raise MoveRefused("tier", f"there is no tier {tier!r}, but {others}", is_there=False)
    one = _partition(partitions, group, partition)
    state = next(each for each in states_of(config, partitions, {}, {}, newest={}) if each.name == group)
    if not one.may_move:
        why = "it takes what fits no other partition, or an older triggerlog has made it"
        raise MoveRefused("partition", f"{partition} of {group} stays where it is: {why}")
    newest = kept_of(state, now_ns)
    if one in newest:
        raise MoveRefused("partition", f"{partition} is one of the {NEWEST} newest of {group}, which never move")
    if one not in old_of(state, newest):
        # By a clock that went back what is being written lies ahead, too.
        problem = f"{partition} is newer than those of {group} that may move: it will be written, or is"
        raise MoveRefused("partition", problem)
    if one.place == target.place:
        return None
    return PlannedMove(
        period=period_of(state, one),
        source=named(one.place, tiers),
        target=target,
        reason="by hand",
        nbytes=one.readings_bytes or 0,
    )


def named(place: str | None, tiers: Sequence[Tier]) -> str:
    """The tier that a place is, in words."""
    return name_of(place, tiers) or ELSEWHERE


def _partition(found: Mapping[str, Sequence[Partition]], group: str, partition: str) -> Partition:
    if group not in found:
        problem = f"there is no group {group!r} with partitions, but {', '.join(found)}"
        raise MoveRefused("group", problem, is_there=False)
    for each in found[group]:
        if each.name == partition and each.readings_bytes is not None:
            return each
    raise MoveRefused("partition", f"{group} has no partition {partition!r} with readings", is_there=False)

"""A move that a person orders: of one partition to a tier, checked before anything is moved."""

from collections.abc import Mapping, Sequence

from backends.base import Partition
from daemon.retention.limits import states_of
from daemon.retention.planner import kept_of, old_of, period_of
from daemon.tiers.limits import tiers_of
from daemon.tiers.planner import PlannedMove, Tier, name_of
from schemas.config import Config
from schemas.config.retention import NEWEST

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

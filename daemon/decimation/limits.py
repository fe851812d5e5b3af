"""What decimation needs to know to plan: what the configuration asks for, and the partitions and the account."""

from collections.abc import Collection, Mapping, Sequence

from backends.base import Partition
from daemon.decimation.planner import GroupToReduce, Plan, plan
from daemon.retention.limits import states_of
from schemas.config import Config, GroupConfig
from schemas.decimation import Decimated
from schemas.retention import Dropped


def aging(config: Config) -> list[GroupConfig]:
    """The groups whose readings are reduced by age."""
    asked = config.reductions
    return [section for section in config.trigger_groups if section.name in asked]


def planned(
    config: Config,
    partitions: Mapping[str, Sequence[Partition]],
    dropped: Mapping[str, Sequence[Dropped]],
    decimated: Mapping[str, Sequence[Decimated]],
    waited_for: Mapping[str, dict[str, str]],
    *,
    late: Mapping[str, Collection[str]],
    newest: Mapping[str, int],
    now_ns: int,
) -> Plan:
    """What to reduce now, of what a store says; see `daemon.retention.limits.states_of` for the arguments.

    late: names of periods that readings came for since they were reduced.
    """
    asked = config.reductions
    groups = [
        GroupToReduce(
            state=state,
            asked=asked.get(state.name),
            account={each.period.name: each for each in decimated.get(state.name, ())},
            late=late.get(state.name, ()),
        )
        for state in states_of(config, partitions, dropped, waited_for, newest=newest)
    ]
    return plan(groups, now_ns)

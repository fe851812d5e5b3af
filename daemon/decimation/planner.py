"""Reductions that are next, and why: a pure function of partitions, what the configuration asks for, account and time.

First what was begun, then what readings came for since it was reduced, then what is too old; the oldest first, over all
groups. As for retention the newest partitions of a group with readings stay, and what something waits for is passed
over, and named; partitions that an older triggerlog has made stay as they are. A period is reduced one way, as its
account says, whatever the configuration asks for later.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from backends.base import Partition
from daemon.retention.limits import states_of
from daemon.retention.planner import DAY_NS, GroupState, Held, Next, kept_of, old_of, period_of
from schemas.config import Config, GroupConfig
from schemas.decimation import SECOND_NS, Decimated, Every, How, Reduction
from schemas.retention import Dropped, Period


@dataclass(frozen=True, kw_only=True)
class GroupToReduce:
    """A group as decimation sees it.

    state: its partitions. asked: what the configuration asks for; None where it asks for nothing. account: periods
    that were reduced, or are being reduced. late: names of those that readings came for since.
    """

    state: GroupState
    asked: Reduction | None = None
    account: Mapping[str, Decimated] = field(default_factory=dict)
    late: Collection[str] = ()


@dataclass(frozen=True, kw_only=True)
class PlannedReduction:
    """A period to reduce, how, why in one line, and how many bytes of readings that are.

    window_ns: so long before and after a mark all stays.
    """

    period: Period
    how: How
    window_ns: int
    reason: str
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to reduce, in order, what stays though it has to be reduced, and what age reduces next."""

    reductions: tuple[PlannedReduction, ...] = ()
    held: tuple[Held, ...] = ()
    next: Next | None = None


def plan(groups: Sequence[GroupToReduce], now_ns: int) -> Plan:
    """Decide what to reduce now."""
    reductions: list[tuple[int, PlannedReduction]] = []
    held: list[Held] = []
    for group in groups:
        for rank, found in _of_group(group, now_ns):
            is_new = found.period.name not in group.account
            why = (_not_whole(found) if is_new else None) or group.state.waited_for.get(found.period.name)
            if why is None:
                reductions.append((rank, found))
            else:
                held.append(Held(period=found.period, reason=why))
    reductions.sort(key=lambda each: (each[0], each[1].period.end_ns, each[1].period.group))
    nexts = [each for group in groups for each in _next_of(group, now_ns)]
    return Plan(
        reductions=tuple(each for _, each in reductions),
        held=tuple(held),
        next=min(nexts, key=lambda each: each.at_ns, default=None),
    )


def _of_group(group: GroupToReduce, now_ns: int) -> Iterator[tuple[int, PlannedReduction]]:
    if group.asked is None:
        return
    for partition in _reducible(group, now_ns):
        rank, how, reason = _asked_of(partition, group, group.asked, now_ns)
        if reason is not None:
            yield (
                rank,
                PlannedReduction(
                    period=period_of(group.state, partition),
                    how=how,
                    window_ns=group.asked.window_ns,
                    reason=reason,
                    nbytes=partition.readings_bytes or 0,
                ),
            )


def _not_whole(found: PlannedReduction) -> str | None:
    """Why a period has no whole buckets; None where it has: figures of two periods cannot be dropped with one."""
    period = found.period
    if isinstance(found.how, Every) or not (period.start_ns % found.how.ns or period.end_ns % found.how.ns):
        return None
    return f"buckets of {found.how.ns / SECOND_NS:g} s do not divide it: it was made with another `database.partition`"


def _asked_of(partition: Partition, group: GroupToReduce, asked: Reduction, now_ns: int) -> tuple[int, How, str | None]:
    """In which turn a partition is reduced, how, and why; no reason where it is not."""
    known = group.account.get(partition.name)
    if known is not None and known.ended_ns is None:
        return 0, known.how, "it was begun"
    if known is not None:
        return 1, known.how, "readings came for it since" if partition.name in group.late else None
    age_ns = group.state.aged_at(now_ns) - partition.end_ns
    if age_ns < asked.after_ns:
        return 2, asked.how, None
    days = f"it ended {age_ns / DAY_NS:,.1f} days ago, and readings are reduced after {asked.after_ns / DAY_NS:g}"
    return 2, asked.how, f"{days}, to {asked.how.words}"


def _next_of(group: GroupToReduce, now_ns: int) -> Iterator[Next]:
    """What of a group becomes too old first."""
    if group.asked is None:
        return
    for partition in (*_reducible(group, now_ns), *kept_of(group.state, now_ns)):
        at_ns = partition.end_ns + group.asked.after_ns
        if partition.name not in group.account and at_ns > group.state.aged_at(now_ns):
            yield Next(period=period_of(group.state, partition), at_ns=at_ns)
            return


def _reducible(group: GroupToReduce, now_ns: int) -> list[Partition]:
    return [each for each in old_of(group.state, kept_of(group.state, now_ns)) if each.may_reduce]


# --- the state that a plan needs -------------------------------------------------------------------------------------


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

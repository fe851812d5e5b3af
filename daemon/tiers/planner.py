"""What moves next to which tier, and why: a pure function of partitions, tiers and time.

The policy is age: first what is too old for its tier, then what is too much for one; the oldest first, over all groups.
A partition only moves on, to a later tier. The newest partitions of a group with readings never move, nor does one that
something waits for; a partition that stays for that is passed over, and named. What an older triggerlog has made, or
somebody has put elsewhere, stays there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backends.base import Partition
from daemon.retention.planner import DAY_NS, GIB, GroupState, kept_of, old_of, period_of
from schemas.retention import Period


@dataclass(frozen=True, kw_only=True)
class Tier:
    """A tier, in the order of the configuration.

    place: as `Partition.place`. max_bytes, after_ns: its limits; None where there is none.
    """

    name: str
    place: str | None
    max_bytes: int | None = None
    after_ns: int | None = None


@dataclass(frozen=True, kw_only=True)
class PlannedMove:
    """A period to move from a tier to another, why in one line, and how many bytes that are."""

    period: Period
    source: str
    target: Tier
    reason: str
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Held:
    """A period that a limit asks for, and that stays, and why."""

    period: Period
    reason: str


@dataclass(frozen=True, kw_only=True)
class Short:
    """A tier whose limit is not met with all that may move on: by so many bytes."""

    tier: str
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Next:
    """The next period that becomes too old for its tier, where it moves to, and when (UTC, ns)."""

    period: Period
    tier: str
    at_ns: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to move, in order, what stays though a limit asks for it, what is not met, and what age moves next."""

    moves: tuple[PlannedMove, ...] = ()
    held: tuple[Held, ...] = ()
    short: tuple[Short, ...] = ()
    next: Next | None = None


def plan(tiers: Sequence[Tier], groups: Sequence[GroupState], now_ns: int) -> Plan:
    """Decide what to move now."""
    planning = _Planning(tiers, groups, now_ns)
    planning.by_age()
    for number in range(len(tiers) - 1):
        planning.by_size(number)
    return Plan(
        moves=tuple(planning.moves()),
        held=tuple(planning.held),
        short=tuple(planning.short),
        next=min(planning.nexts(), key=lambda each: each.at_ns, default=None),
    )


def tier_of(place: str | None, tiers: Sequence[Tier]) -> int | None:
    """The number of the tier that a place is; None where it is none of them."""
    return next((number for number, tier in enumerate(tiers) if tier.place == place), None)


def sizes_of(tiers: Sequence[Tier], groups: Sequence[GroupState]) -> list[int]:
    """How many bytes lie in each tier: what does not move (ledgers, indexes) in the first one."""
    sizes = [0] * len(tiers)
    for group in groups:
        for partition in group.partitions:
            number = tier_of(partition.place, tiers)
            moved = _moved_bytes(partition) if number else 0
            sizes[0] += partition.size_bytes - (moved if number else 0)
            if number:
                sizes[number] += moved
    return sizes


@dataclass
class _Movable:
    """A period that may move. tier: where it lies by the plan so far; reason: why it moves."""

    group: GroupState
    partition: Partition
    lies: int
    tier: int
    reason: str = ""


class _Planning:
    """A plan being made."""

    def __init__(self, tiers: Sequence[Tier], groups: Sequence[GroupState], now_ns: int) -> None:
        self.held: list[Held] = []
        self.short: list[Short] = []
        self._tiers = tiers
        self._groups = groups
        self._now_ns = now_ns
        self._sizes = sizes_of(tiers, groups)
        self._movable = sorted(self._all_movable(), key=lambda each: (each.partition.end_ns, each.group.name))

    def by_age(self) -> None:
        """Move what ended longer ago than a tier's age to the last such tier."""
        for each in self._movable:
            age_ns = each.group.aged_at(self._now_ns) - each.partition.end_ns
            number, tier = self._by_age(age_ns)
            if tier.after_ns is not None and number > each.tier:
                days = age_ns / DAY_NS
                reason = f"it ended {days:,.1f} days ago, and moves to {tier.name} after {tier.after_ns / DAY_NS:g}"
                self._take(each, number, reason)

    def by_size(self, number: int) -> None:
        """Move the oldest from a tier to the next until no more lies there than may."""
        tier = self._tiers[number]
        if tier.max_bytes is None:
            return
        for each in [each for each in self._movable if each.tier == number]:
            if self._sizes[number] <= tier.max_bytes:
                return
            size, most = self._sizes[number] / GIB, tier.max_bytes / GIB
            self._take(each, number + 1, f"{tier.name} takes {size:,.3g} GiB, and may take {most:,.3g}")
        if self._sizes[number] > tier.max_bytes:
            self.short.append(Short(tier=tier.name, nbytes=self._sizes[number] - tier.max_bytes))

    def moves(self) -> Iterator[PlannedMove]:
        """All of them, the oldest first."""
        for each in self._movable:
            if each.tier != each.lies:
                yield PlannedMove(
                    period=period_of(each.group, each.partition),
                    source=self._tiers[each.lies].name,
                    target=self._tiers[each.tier],
                    reason=each.reason,
                    nbytes=_moved_bytes(each.partition),
                )

    def nexts(self) -> Iterator[Next]:
        """What of each group and tier becomes too old for it first."""
        for group in self._groups:
            old = [each.partition for each in self._movable if each.group is group and each.tier == each.lies]
            for partition in (*old, *kept_of(group, self._now_ns)):
                lies = tier_of(partition.place, self._tiers)
                later = [] if lies is None else self._tiers[lies + 1 :]
                for tier in later:
                    if tier.after_ns is not None and partition.end_ns + tier.after_ns > group.aged_at(self._now_ns):
                        at_ns = partition.end_ns + tier.after_ns
                        yield Next(period=period_of(group, partition), tier=tier.name, at_ns=at_ns)
                        break

    def _all_movable(self) -> Iterator[_Movable]:
        for group in self._groups:
            for partition in old_of(group, kept_of(group, self._now_ns)):
                number = tier_of(partition.place, self._tiers)
                if number is not None and partition.may_move:
                    yield _Movable(group=group, partition=partition, lies=number, tier=number)

    def _by_age(self, age_ns: int) -> tuple[int, Tier]:
        """The last tier for what is so old; the first one where it is old enough for none."""
        fit = [
            (number, tier)
            for number, tier in enumerate(self._tiers)
            if tier.after_ns is not None and tier.after_ns <= age_ns
        ]
        return fit[-1] if fit else (0, self._tiers[0])

    def _take(self, each: _Movable, number: int, reason: str) -> None:
        if each.partition.name in each.group.waited_for:
            period = period_of(each.group, each.partition)
            self.held.append(Held(period=period, reason=each.group.waited_for[each.partition.name]))
            return
        nbytes = _moved_bytes(each.partition)
        self._sizes[each.tier] -= nbytes
        self._sizes[number] += nbytes
        each.tier, each.reason = number, reason


def _moved_bytes(partition: Partition) -> int:
    """What of a partition lies where it was moved to: the readings without their indexes."""
    return (partition.readings_bytes or 0) - partition.index_bytes

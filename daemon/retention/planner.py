"""The next drops of retention, and their reasons: a pure function of partitions, limits, disk and time.

The order: first what is too old, then what is too much for a group, then what the disk has no room for; the oldest
first, and of several groups the one whose partition ended first. The newest partitions of a group with readings are
never dropped, nor is one that something waits for; a partition that stays for that is passed over, and named. What lies
ahead of now is there for a wrong clock: it is not what is being written, and does not stand for the newest.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from backends.base import Partition
from schemas.config.retention import NEWEST
from schemas.retention import Period, Rule

DAY_NS = 86_400_000_000_000
GIB = 2**30
ENDS_NS = (-(2**63), 2**63 - 2)
"""A partition that begins or ends here takes what fits no other."""


@dataclass(frozen=True, kw_only=True)
class GroupState:
    """A group as retention sees it.

    partitions: as the store has them. keep_ns, max_bytes: its limits; None where there is none. gone: names of
    partitions that were dropped before, and are there again for a reading with a wrong clock. waited_for: names of
    partitions that something waits for, with what. newest_ns: time of its newest trigger, by the ledger; None where
    nobody knows. figures: what the figures of partitions that were reduced take besides, in bytes, by name: they count
    with the partition that takes all times. refused: rules for which the database refuses to drop anything, with why.
    """

    name: str
    partitions: Sequence[Partition]
    keep_ns: int | None = None
    max_bytes: int | None = None
    gone: Collection[str] = ()
    waited_for: dict[str, str] = field(default_factory=dict)
    newest_ns: int | None = None
    figures: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[Rule, str] = field(default_factory=dict)

    def frees(self, partition: Partition) -> int:
        """What a drop of a partition takes off the size of the group, in bytes."""
        return (partition.readings_bytes or 0) + self.figures.get(partition.name, 0)

    def aged_at(self, now_ns: int) -> int:
        """The moment that ages are counted to (UTC, ns), by a clock and the readings.

        A clock of this node that is far ahead would make everything old: the readings tell the time, too.
        """
        return now_ns if self.newest_ns is None else min(now_ns, self.newest_ns)


@dataclass(frozen=True, kw_only=True)
class DiskState:
    """The disk of the database, in bytes; free_wanted: what has to be free.

    tier: the only one that lies there; None where all readings do.
    """

    total: int
    free: int
    free_wanted: int
    tier: "TierThere | None" = None

    def frees(self, partition: Partition) -> int | None:
        """How much a drop of a partition frees there, in bytes; None where it lies elsewhere."""
        readings = partition.readings_bytes or 0
        if self.tier is None:
            return readings
        if partition.place != self.tier.place:
            return None
        return readings if self.tier.is_first else readings - partition.index_bytes


@dataclass(frozen=True, kw_only=True)
class TierThere:
    """The tier on a disk: its place, as `Partition.place`, and whether it is the first one, which has all indexes."""

    place: str | None
    is_first: bool


@dataclass(frozen=True, kw_only=True)
class Drop:
    """A period to drop, for which rule, why in one line, and what that frees, in bytes."""

    period: Period
    rule: Rule
    reason: str
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Held:
    """A period that a limit or an age asks for, and that stays, and why."""

    period: Period
    reason: str

    @property
    def words(self) -> str:
        """What stays and why, in one line."""
        return f"{self.period.name} of {self.period.group}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Short:
    """A limit that is not met with all that may be dropped: by so many bytes. group: None for the disk."""

    group: str | None
    rule: Rule
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Next:
    """The next period that becomes too old, and when (UTC, ns)."""

    period: Period
    at_ns: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to drop, in order, what stays though a limit asks for it, what is not met, and what age drops next."""

    drops: tuple[Drop, ...] = ()
    held: tuple[Held, ...] = ()
    short: tuple[Short, ...] = ()
    next: Next | None = None


def plan(groups: Sequence[GroupState], disk: DiskState | None, now_ns: int) -> Plan:
    """Decide what to drop now."""
    planning = _Planning(groups, now_ns)
    for group in groups:
        planning.by_age(group)
    for group in groups:
        planning.by_size(group)
    if disk is not None:
        planning.by_disk(disk)
    return Plan(
        drops=tuple(planning.drops),
        held=tuple(planning.held),
        short=tuple(planning.short),
        next=min(
            (each for group in groups for each in planning.nexts(group)), key=lambda each: each.at_ns, default=None
        ),
    )


class _Planning:
    """A plan being made."""

    def __init__(self, groups: Sequence[GroupState], now_ns: int) -> None:
        self.drops: list[Drop] = []
        self.held: list[Held] = []
        self.short: list[Short] = []
        self._taken: dict[tuple[str, str], Partition] = {}
        self._newest = {group.name: kept_of(group, now_ns) for group in groups}
        self._old = {group.name: old_of(group, self._newest[group.name]) for group in groups}
        self._groups = groups
        self._now_ns = now_ns

    def by_age(self, group: GroupState) -> None:
        """Drop what ended longer ago than readings are kept."""
        if group.keep_ns is None:
            return
        now_ns = group.aged_at(self._now_ns)
        for partition in self._old[group.name]:
            if partition.end_ns + group.keep_ns <= now_ns:
                days = (now_ns - partition.end_ns) / DAY_NS
                reason = f"it ended {days:,.1f} days ago, and readings are kept for {group.keep_ns / DAY_NS:g} days"
                self._take(group, partition, Rule.AGE, reason)

    def by_size(self, group: GroupState) -> None:
        """Drop the oldest until a group takes no more than it may."""
        if group.max_bytes is None:
            return
        size = sum(partition.size_bytes for partition in group.partitions) - self._freed(group.name)
        for partition in self._left(group):
            if size <= group.max_bytes:
                return
            over = f"the group takes {size / GIB:,.3g} GiB, and may take {group.max_bytes / GIB:,.3g}"
            if self._take(group, partition, Rule.SIZE, over):
                size -= group.frees(partition)
        if size > group.max_bytes:
            self.short.append(Short(group=group.name, rule=Rule.SIZE, nbytes=size - group.max_bytes))

    def by_disk(self, disk: DiskState) -> None:
        """Drop the oldest of all groups until enough of the disk is free."""
        free = disk.free + sum(disk.frees(partition) or 0 for partition in self._taken.values())
        left = [(partition, group) for group in self._groups for partition in self._left(group)]
        for partition, group in sorted(left, key=lambda each: (each[0].end_ns, each[1].name)):
            if free >= disk.free_wanted:
                return
            nbytes = disk.frees(partition)
            reason = f"{_percent(free, disk)} of the disk is free, and {_percent(disk.free_wanted, disk)} has to be"
            # The room of figures is used for others, and not given back.
            is_reduced = nbytes is not None and nbytes <= group.figures.get(partition.name, 0)
            if nbytes is not None and not is_reduced and self._take(group, partition, Rule.DISK, reason, nbytes):
                free += nbytes
        if free < disk.free_wanted:
            self.short.append(Short(group=None, rule=Rule.DISK, nbytes=disk.free_wanted - free))

    def nexts(self, group: GroupState) -> Iterator[Next]:
        """What of a group becomes too old first."""
        if group.keep_ns is not None:
            for partition in (*self._left(group), *self._newest[group.name]):
                if partition.name not in group.waited_for:
                    yield Next(period=period_of(group, partition), at_ns=partition.end_ns + group.keep_ns)
                    return

    def _left(self, group: GroupState) -> list[Partition]:
        return [each for each in self._old[group.name] if (group.name, each.name) not in self._taken]

    def _freed(self, group: str) -> int:
        return sum(drop.nbytes for drop in self.drops if drop.period.group == group)

    def _take(
        self, group: GroupState, partition: Partition, rule: Rule, reason: str, nbytes: int | None = None
    ) -> bool:
        period = period_of(group, partition)
        why = group.waited_for.get(partition.name) or group.refused.get(rule)
        if why is not None:
            self.held.append(Held(period=period, reason=why))
            return False
        self._taken[group.name, partition.name] = partition
        nbytes = group.frees(partition) if nbytes is None else nbytes
        self.drops.append(Drop(period=period, rule=rule, reason=reason, nbytes=nbytes))
        return True


def _with_readings(group: GroupState) -> list[Partition]:
    """The partitions of stretches of time that have readings, the oldest first."""
    found = [
        partition
        for partition in group.partitions
        if partition.readings_bytes is not None
        and partition.name not in group.gone
        and partition.start_ns > ENDS_NS[0]
        and partition.end_ns < ENDS_NS[1]
    ]
    return sorted(found, key=lambda partition: partition.start_ns)


def kept_of(group: GroupState, now_ns: int) -> list[Partition]:
    """The newest ones that have rows, which stay: those made ahead are none, nor what a wrong clock has put there."""
    return [each for each in _with_readings(group) if each.rows > 0 and each.start_ns <= now_ns][-NEWEST:]


def old_of(group: GroupState, newest: Sequence[Partition]) -> list[Partition]:
    """Those that may be dropped: before the newest ones."""
    if len(newest) < NEWEST:
        return []
    return [each for each in _with_readings(group) if each.end_ns <= newest[0].start_ns]


def period_of(group: GroupState, partition: Partition) -> Period:
    """The period that a partition is."""
    return Period(group=group.name, name=partition.name, start_ns=partition.start_ns, end_ns=partition.end_ns)


def _percent(nbytes: int, disk: DiskState) -> str:
    return f"{100 * nbytes / disk.total:.1f} %"

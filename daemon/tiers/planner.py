"""The next moves to tiers, and their reasons: a pure function of partitions, tiers, heat and time.

By age: first what is too old for its tier, then what is too much for one; the oldest first, over all groups. A
partition only moves on, to a later tier. By access, `filled` says what of a tier's budget each partition gets by its
heat; then partitions move back, too, after those that make room for them. The newest partitions of a group with
readings never move, nor does one that something waits for; a partition that stays for that is passed over, and named.
What an older triggerlog has made, or somebody has put elsewhere, stays there.
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from backends.base import Partition
from daemon.retention.planner import DAY_NS, GIB, GroupState, Held, kept_of, old_of, period_of
from daemon.tiers.heat import DAY_S, PAGE, SCANNED_S, Label, PeriodHeat
from schemas.retention import Period

# --- budgets filled by heat ------------------------------------------------------------------------------------------
# The hottest for their bytes come first. What lies in a tier, or before it, stays unless something is hotter by a
# factor; so nothing that was just moved moves back while the heat is what it was, and equal heat moves nothing.

FACTOR = 1.5
"""So much hotter for its bytes than what lies there has a period to be."""
PAYS = 3.0
"""What it saves within a half-life has to be worth so many copies."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Candidate(Generic[K]):
    """A period that may move.

    lies: the number of its tier. least: of the first tier that it is not too old for. s_a_day: its heat. end_ns: of
    equal ones the newest stays.
    """

    key: K
    nbytes: int
    lies: int
    least: int
    s_a_day: float
    end_ns: int

    @property
    def heat(self) -> float:
        """Of a byte."""
        return self.s_a_day / max(1, self.nbytes)


def pays(each: Candidate[K], half_life_days: float) -> bool:
    """Whether it is so hot that it is worth to copy it."""
    return each.s_a_day > 0 and each.s_a_day * half_life_days >= PAYS * SCANNED_S * each.nbytes / PAGE


def filled(candidates: Sequence[Candidate[K]], room: Sequence[int | None], rising: set[K]) -> dict[K, int]:
    """The tier of each.

    room: bytes that each tier has for them, the last one for all; None without a limit. rising: those that may move to
    an earlier tier.
    """
    left, found = list(candidates), {}
    for number, bytes_left in enumerate([*room[:-1], None]):
        most = math.inf if bytes_left is None else bytes_left
        for each in sorted(left, key=lambda each: _order(each, number)):
            first = each.least if each.key in rising else max(each.least, each.lies)
            if first <= number and each.nbytes <= most:
                most -= each.nbytes
                found[each.key] = number
        left = [each for each in left if each.key not in found]
    return found


def _order(each: Candidate[K], number: int) -> tuple[float, bool, int]:
    lies_here = each.lies <= number
    return -each.heat * (FACTOR if lies_here else 1.0), not lies_here, -each.end_ns


HOLD = 0.25
"""For so many half-lives a partition has to be that hot before it is moved back."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """How access moves partitions: by their heat, which has this half-life.

    with_age: a partition that is too old for a tier does not stay there, and never moves back to it.
    """

    heats: Mapping[Label, PeriodHeat]
    half_life_s: float
    with_age: bool = False


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
class Short:
    """A tier whose limit is not met with all that may move on: by so many bytes."""

    tier: str
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Next:
    """The next period that moves as time goes on, where to, and when (UTC, ns), at the earliest."""

    period: Period
    tier: str
    at_ns: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to move, in order, what stays though a limit asks for it, what is not met, and what time moves next.

    wanted: what is so hot that it should lie in an earlier tier, also where it is not so for long enough.
    """

    moves: tuple[PlannedMove, ...] = ()
    held: tuple[Held, ...] = ()
    short: tuple[Short, ...] = ()
    next: Next | None = None
    wanted: frozenset[Label] = frozenset()


def plan(tiers: Sequence[Tier], groups: Sequence[GroupState], now_ns: int, access: Access | None = None) -> Plan:
    """Decide what to move now; without access by age alone."""
    planning = _Planning(tiers, groups, now_ns, access)
    if access is None or access.with_age:
        planning.by_age()
    if access is None:
        for number in range(len(tiers) - 1):
            planning.by_size(number)
    else:
        planning.by_access(access)
    planning.see_short()
    return Plan(
        moves=tuple(planning.moves()),
        held=tuple(planning.held),
        short=tuple(planning.short),
        next=min(planning.nexts(), key=lambda each: each.at_ns, default=None),
        wanted=frozenset(planning.wanted),
    )


def tier_of(place: str | None, tiers: Sequence[Tier]) -> int | None:
    """The number of the tier that a place is; None where it is none of them."""
    return next((number for number, tier in enumerate(tiers) if tier.place == place), None)


def name_of(place: str | None, tiers: Sequence[Tier]) -> str | None:
    """The name of the tier that a place is; None where it is none of them."""
    number = tier_of(place, tiers)
    return None if number is None else tiers[number].name


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

    @property
    def label(self) -> Label:
        return self.group.name, self.partition.name

    @property
    def waits_for(self) -> str | None:
        return self.group.waited_for.get(self.partition.name)

    @property
    def nbytes(self) -> int:
        return _moved_bytes(self.partition)


class _Planning:
    """A plan being made."""

    def __init__(self, tiers: Sequence[Tier], groups: Sequence[GroupState], now_ns: int, access: Access | None) -> None:
        self.held: list[Held] = []
        self.short: list[Short] = []
        self.wanted: set[Label] = set()
        self._asked: Mapping[Label, int] = {}
        self._access = access
        self._tiers = tiers
        self._groups = groups
        self._now_ns = now_ns
        self._sizes = sizes_of(tiers, groups)
        self._movable = sorted(self._all_movable(), key=lambda each: (each.partition.end_ns, each.group.name))

    def by_age(self) -> None:
        """Move what ended longer ago than a tier's age to the last such tier."""
        for each in self._movable:
            age_ns = self._age_ns(each)
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

    def by_access(self, access: Access) -> None:
        """Move what is read most for its bytes to the first tier, as much as may lie there; then to the next."""
        free = [each for each in self._movable if each.waits_for is None]
        candidates = [self._candidate(each, access) for each in free]
        room = [
            None if tier.max_bytes is None else tier.max_bytes - size + sum(e.nbytes for e in free if e.tier == number)
            for number, (tier, size) in enumerate(zip(self._tiers, self._sizes, strict=True))
        ]
        days = access.half_life_s / DAY_S
        rising = {each.key for each in candidates if pays(each, days)}
        self._asked = filled(candidates, room, rising)
        self.wanted = {each.key for each in candidates if self._asked[each.key] < each.lies}
        found = filled(candidates, room, {label for label in self.wanted if self._left_s(label, access) <= 0})
        for each in free:
            if found[each.label] != each.tier:
                self._put(each, found[each.label], self._why(each, found[each.label], access))

    def see_short(self) -> None:
        """Note which budgets are not met, and by access what is held there."""
        for number, tier in enumerate(self._tiers[:-1]):
            if tier.max_bytes is None or self._sizes[number] <= tier.max_bytes:
                continue
            self.short.append(Short(tier=tier.name, nbytes=self._sizes[number] - tier.max_bytes))
            if self._access is not None:
                for each in self._movable:
                    if each.tier == number and each.waits_for is not None:
                        self._hold(each, each.waits_for)

    def moves(self) -> Iterator[PlannedMove]:
        """All of them: the oldest first; by access first what makes room, then what moves back.

        What is first finds room where it moves to, if any does: it is moved, and then there is another plan.
        """
        moved = [each for each in self._movable if each.tier != each.lies]
        if self._access is not None:
            heats = self._access.heats
            moved.sort(key=lambda each: (each.tier < each.lies, _turn(each, heats.get(each.label, PeriodHeat()))))
            self._with_room_first(moved)
        for each in moved:
            yield PlannedMove(
                period=period_of(each.group, each.partition),
                source=self._tiers[each.lies].name,
                target=self._tiers[each.tier],
                reason=each.reason,
                nbytes=each.nbytes,
            )

    def _with_room_first(self, moved: list[_Movable]) -> None:
        sizes = sizes_of(self._tiers, self._groups)
        for number, each in enumerate(moved):
            most = self._tiers[each.tier].max_bytes
            if most is None or sizes[each.tier] + each.nbytes <= most:
                moved.insert(0, moved.pop(number))
                return

    def nexts(self) -> Iterator[Next]:
        """What of each group and tier becomes too old for it first, and what has to be hot for a while longer."""
        if self._access is not None:
            yield from self._warming(self._access)
        if self._access is not None and not self._access.with_age:
            return
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

    def _warming(self, access: Access) -> Iterator[Next]:
        for each in self._movable:
            if each.label in self.wanted and each.tier == each.lies:
                at_ns = self._now_ns + int(1e9 * max(0.0, self._left_s(each.label, access)))
                period = period_of(each.group, each.partition)
                yield Next(period=period, tier=self._tiers[self._asked[each.label]].name, at_ns=at_ns)

    def _all_movable(self) -> Iterator[_Movable]:
        for group in self._groups:
            for partition in old_of(group, kept_of(group, self._now_ns)):
                number = tier_of(partition.place, self._tiers)
                if number is not None and partition.may_move:
                    yield _Movable(group=group, partition=partition, lies=number, tier=number)

    def _age_ns(self, each: _Movable) -> int:
        return each.group.aged_at(self._now_ns) - each.partition.end_ns

    def _by_age(self, age_ns: int) -> tuple[int, Tier]:
        """The last tier for what is so old; the first one where it is old enough for none."""
        fit = [
            (number, tier)
            for number, tier in enumerate(self._tiers)
            if tier.after_ns is not None and tier.after_ns <= age_ns
        ]
        return fit[-1] if fit else (0, self._tiers[0])

    def _candidate(self, each: _Movable, access: Access) -> Candidate[Label]:
        return Candidate(
            key=each.label,
            nbytes=each.nbytes,
            lies=each.lies,
            least=self._by_age(self._age_ns(each))[0] if access.with_age else 0,
            s_a_day=access.heats.get(each.label, PeriodHeat()).s_a_day,
            end_ns=each.partition.end_ns,
        )

    def _left_s(self, label: Label, access: Access) -> float:
        """For how long a period has to be wanted yet."""
        return HOLD * access.half_life_s - access.heats.get(label, PeriodHeat()).wanted_s

    def _why(self, each: _Movable, number: int, access: Access) -> str:
        s_a_day = access.heats.get(each.label, PeriodHeat()).s_a_day
        if number < each.lies:
            target = self._tiers[number].name
            return f"in {target} it saves its readers {s_a_day:,.3g} s a day, more for its size than what lies there"
        before = self._tiers[number - 1]
        most = "" if before.max_bytes is None else f", which may take {before.max_bytes / GIB:,.3g} GiB"
        return f"it saves its readers {s_a_day:,.3g} s a day, less for its size than what stays in {before.name}{most}"

    def _take(self, each: _Movable, number: int, reason: str) -> None:
        if each.waits_for is not None:
            self._hold(each, each.waits_for)
        else:
            self._put(each, number, reason)

    def _hold(self, each: _Movable, reason: str) -> None:
        self.held.append(Held(period=period_of(each.group, each.partition), reason=reason))

    def _put(self, each: _Movable, number: int, reason: str) -> None:
        self._sizes[each.tier] -= each.nbytes
        self._sizes[number] += each.nbytes
        each.tier, each.reason = number, reason


def _turn(each: _Movable, heat: PeriodHeat) -> float:
    """The coldest for its bytes makes room first, and the hottest moves back first."""
    of_a_byte = heat.s_a_day / max(1, each.nbytes)
    return -of_a_byte if each.tier < each.lies else of_a_byte


def _moved_bytes(partition: Partition) -> int:
    """What of a partition lies where it was moved to: the readings without their indexes."""
    return (partition.readings_bytes or 0) - partition.index_bytes

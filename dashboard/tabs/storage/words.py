"""What is moved, reduced and dropped, and what of it comes next and when, in words."""

from dashboard.words import about, counted, number, size
from schemas.api.decimation import NextReduction, ReducingPeriod
from schemas.api.retention import NextPeriod, RetentionStatus
from schemas.api.status import Status
from schemas.api.storage import Storage
from schemas.api.tiers import MovingPeriod, NextMove, TiersStatus


def tiers_words(status: Status) -> str:
    """What lies in which tier, what is moved now or next, and how long that lasts; nothing without tiers."""
    found = status.tiers
    if found is None:
        return ""
    lie = ", ".join(f"{tier.name} {size(tier.size_bytes)}" for tier in found.tiers)
    problem = "" if found.problem is None else f"; {found.problem}"
    return f"tiers: {lie}; {_moved(found, status)}{problem}"


def _moved(found: TiersStatus, status: Status) -> str:
    if found.moving is not None:
        waiting = f", then {counted(found.waiting, 'partition')} more" if found.waiting else ""
        return f"{found.words()}: {_left(found.moving)}{waiting}"
    return found.words() + (_when(found.next, status) if found.words().startswith("next") else "")


def _left(moving: MovingPeriod | ReducingPeriod) -> str:
    left = "" if moving.left_s is None else f", {about(moving.left_s)} left"
    return f"{100 * moving.done:.0f} %{left}"


def retention_words(status: Status) -> str:
    """What retention does next, and when."""
    found: RetentionStatus | None = status.retention
    if found is None:
        return ""
    when = _when(found.next, status) if found.words().startswith("next") else ""
    done = f"; {found.periods:,} partitions dropped" if found.periods else ""
    problem = "" if found.problem is None else f"; {found.problem}"
    return f"retention: {found.words()}{when}{done}{problem}"


def decimation_words(status: Status) -> str:
    """What is reduced now or next, when, and what was; nothing where nothing is to be reduced."""
    found = status.decimation
    if found is None:
        return ""
    if found.reducing is not None:
        waiting = f", then {counted(found.waiting, 'partition')} more" if found.waiting else ""
        next_ = f"{found.words()}: {_left(found.reducing)}{waiting}"
    else:
        next_ = found.words() + _when(found.next, status)
    done = f"; {counted(found.periods, 'partition')} reduced" if found.periods else ""
    held = f"; held: {found.held[0]}" if found.held else ""
    problem = "" if found.problem is None else f"; {found.problem}"
    return f"decimation: {next_}{done}{held}{problem}"


def _when(following: NextPeriod | NextMove | NextReduction | None, status: Status) -> str:
    return "" if following is None else f", in {about(max(0.0, (following.at_ns - status.time_ns) / 1e9))}"


def heat_words(s_a_day: float | None) -> str:
    """How hot a partition is: what its readers wait, or would, where it lies on a slow disk."""
    return "–" if s_a_day is None else f"{number(s_a_day)} s/day"


def described(storage: Storage) -> str:
    """The picture in words: how many partitions of each group lie where, and which is the hottest."""
    said = []
    for name, group in storage.groups.items():
        tiers = [each.tier for each in group.partitions if each.tier is not None]
        where = ", ".join(f"{tiers.count(tier)} in {tier}" for tier in dict.fromkeys(tiers))
        hottest = max(group.partitions, key=lambda each: each.heat_s_a_day or 0.0, default=None)
        hot = ""
        if hottest is not None and hottest.heat_s_a_day:
            hot = f", the hottest {hottest.name}, {heat_words(hottest.heat_s_a_day)}"
        said.append(f"{name}: {counted(len(group.partitions), 'partition')}{f', {where}' if where else ''}{hot}")
    return "; ".join(said)

"""What the tab Storage says of a status, and of what the daemon answers about its database."""

from datetime import UTC, datetime

from dashboard.tabs.tables import Cell, Row, cell, row
from dashboard.words import NONE, about, coarse, count, counted, lasted, number, reasons, size
from schemas.api.decimation import NextReduction, ReducingPeriod
from schemas.api.retention import NextPeriod, RetentionStatus
from schemas.api.status import GroupStatus, IntakeStatus, Status, StoreStatus
from schemas.api.storage import GroupStorage, JournalStorage, PartitionStorage, ReducedStorage, Storage
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


MOST_SHOWN = 200
"""Partitions in the table."""

STRETCHES = 3
"""Stretches of time that are named, the newest."""

NO_END = 9e18
"""The ends of int64 stand for no end at all."""

DAY_NS = 86_400_000_000_000

Pair = tuple[str, str, bool]
"""Name, value, and whether it stands out."""


def outage_rows(status: Status) -> list[Row]:
    """What waits in each group, and how long there is room for more; before the database answered, in its intake."""
    rows = [_outage(name, group, status.store) for name, group in status.groups.items()]
    return rows + [_in_intake(name, each) for name, each in status.intakes.items() if name not in status.groups]


def _in_intake(name: str, intake: IntakeStatus) -> Row:
    behind = f"; {count(intake.unsynced)} of them are not on the disk yet" if intake.unsynced else ""
    return row(
        name,
        group=name,
        waiting=cell(NONE, -1),
        readings=cell(count(intake.waiting), intake.waiting, title=f"in the journal{behind}"),
        room=cell(intake.problem or NONE, -1, over=intake.problem is not None),
        drained=cell("once back", over=True),
        risk=cell(NONE, -1),
    )


def outage_note(store: StoreStatus, *, is_dead: bool) -> str:
    """Whether the database answers."""
    if is_dead:
        return "○ unknown: the daemon does not answer"
    if store.available:
        return "● the database answers"
    return f"■ the database is away: {store.problem}" if store.problem else "■ the database is away"


def _outage(name: str, group: GroupStatus, store: StoreStatus) -> Row:
    readings = group.readings
    room = cell("full: senders are held back", 0, over=True) if group.backpressure else _estimated(group.full_in_s)
    return row(
        name,
        group=name,
        waiting=_count(group.triggers.waiting),
        readings=_count(readings.waiting),
        room=room,
        drained=_drained(group, store),
        risk=_count(readings.at_risk, over=group.at_risk_ms is None and readings.at_risk > 0),
    )


def _drained(group: GroupStatus, store: StoreStatus) -> Cell:
    if group.drained_in_s == 0:
        return cell("at once" if group.readings.waiting else "nothing waits", 0)
    if group.drained_in_s is None:
        return cell("falling behind" if store.available else "once back", over=True)
    return _estimated(group.drained_in_s)


def durability_pairs(status: Status) -> list[Pair]:
    """What is in force, what a crash of the server can lose of each group, and from which settings that follows."""
    store = status.store
    pairs: list[Pair] = [("In force", store.durability, False)]
    for name, group in status.groups.items():
        risk = "loses nothing that was acknowledged" if group.at_risk_ms == 0 else f"can lose {_loss(group.at_risk_ms)}"
        words = f"{group.durability.value} requested; a crash of the server {risk}"
        pairs.append((name, words, group.at_risk_ms is None))
    pairs += [(f"{asked.value} is not kept", str(found), True) for asked, found in store.shortfall.items()]
    pairs += [(name, value, False) for name, value in store.settings.items()]
    return [*pairs, ("Database", store.target, False)]


def durability_note(store: StoreStatus) -> str:
    """Whether it is as requested."""
    return "▲ less than requested" if store.shortfall else "● as requested"


def _loss(at_risk_ms: float | None) -> str:
    return "all of it" if at_risk_ms is None else f"the last {number(at_risk_ms)} ms"


def stored_rows(storage: Storage, status: Status) -> list[Row]:
    """Sizes and growth of each group."""
    sizes = {name: group.instruments for name, group in status.groups.items()}
    return [_stored(name, group, storage, sizes.get(name)) for name, group in storage.groups.items()]


def _stored(name: str, group: GroupStorage, storage: Storage, instruments: int | None) -> Row:
    is_known, are_known = storage.sizes_age_s is not None, storage.partitions_age_s is not None
    each, over_s = group.bytes_a_reading, group.measured_over_s
    return row(
        name,
        group=name,
        readings=_count(group.readings),
        rows=_count(group.rows) if is_known else cell(NONE, -1),
        size=_size(group.size_bytes if is_known else None),
        each=cell(NONE, -1) if each is None else cell(f"{number(each)} B", each),
        instrument=_size(group.size_bytes / instruments if is_known and instruments else None),
        rate=_size(group.growth_bytes_a_day),
        measured=_size(group.measured_bytes_a_day),
        over=cell("in a minute" if over_s < 60 else lasted(over_s), over_s),
        partitions=_count(len(group.partitions)) if are_known else cell(NONE, -1),
    )


def stored_note(storage: Storage, status: Status) -> str:
    """How old the sizes are, and what the disk has left."""
    return f"sizes: {_age(storage.sizes_age_s)} · {_disk(storage, status)}"


def _disk(storage: Storage, status: Status) -> str:
    disk = status.disk
    if disk is None:
        return "the state folder’s disk is unknown"
    free, total = (number(each / 2**30) for each in (disk.free_bytes, disk.total_bytes))
    words = f"disk of the state folder: {free} of {total} GiB free"
    if not storage.database_is_here:
        return f"{words}; the database is elsewhere, check its disk there"
    return words if storage.full_in_days is None else f"{words}, full in {about(storage.full_in_days * 86400)}"


def reduced_rows(storage: Storage) -> list[Row]:
    """What was reduced of each group; no row of a group of which nothing was."""
    return [_reduced(name, group.reduced) for name, group in storage.groups.items() if group.reduced is not None]


def _reduced(name: str, found: ReducedStorage) -> Row:
    saved = 1 - found.bytes_after / found.bytes_before if found.bytes_before else 0.0
    spans = [*zip(found.from_ns, found.to_ns, strict=True)]
    more = f", and {count(len(spans) - STRETCHES)} more" if len(spans) > STRETCHES else ""
    return row(
        name,
        group=name,
        periods=_count(found.periods),
        readings=_count(found.readings),
        rows=_count(found.rows_before),
        stayed=_count(found.rows_after),
        before=_size(found.bytes_before),
        after=_size(found.bytes_after),
        saved=cell(f"{100 * saved:.0f} %", saved),
        stretches=", ".join(f"{_moment(begin)} to {_moment(end)}" for begin, end in spans[-STRETCHES:]) + more,
    )


def partition_rows(storage: Storage, group: str) -> list[Row]:
    """The newest partitions of a group, the newest first; share: of the largest one's size, in %."""
    every = _partitions(storage, group)
    most = max([one.size_bytes for one in every], default=0) or 1
    return [_partition(one, storage.time_ns, 100 * one.size_bytes / most) for one in reversed(every[-MOST_SHOWN:])]


def _partition(one: PartitionStorage, now_ns: int, share: float) -> Row:
    is_rest = one.end_ns - one.start_ns > NO_END
    what = "future" if one.start_ns > now_ns else "current" if one.end_ns > now_ns else ""
    return row(
        one.name,
        name=one.name,
        **{"from": cell(_moment(one.start_ns), one.start_ns)},
        until=cell(_moment(one.end_ns), one.end_ns),
        rows=_count(one.rows),
        size=_size(one.size_bytes),
        share=cell("", share),
        tier=one.tier or NONE,
        heat=cell(heat_words(one.heat_s_a_day), -1 if one.heat_s_a_day is None else one.heat_s_a_day),
        what="all others" if is_rest else what or ("reduced" if one.reduced else ""),
    )


def partitions_note(storage: Storage, group: str) -> str:
    """Of which group, how many, and how old that is."""
    amount = len(_partitions(storage, group))
    shown = f"the newest {MOST_SHOWN} of {count(amount)}" if amount > MOST_SHOWN else count(amount)
    problem = storage.partitions_problem
    age = f"▲ out of date: {problem}" if problem else f"checked {_age(storage.partitions_age_s)}"
    return " · ".join([group, shown, age])


def _partitions(storage: Storage, group: str) -> list[PartitionStorage]:
    return storage.groups[group].partitions if group in storage.groups else []


def journal_rows(storage: Storage, status: Status) -> list[Row]:
    """How much room each journal has; before the database has answered once, how much is in it."""
    found = [(name, group.journal) for name, group in storage.groups.items()]
    rows = [_journal(name, journal, status.groups.get(name)) for name, journal in found if journal is not None]
    return rows + [_unplaced(name, each) for name, each in status.intakes.items() if name not in storage.groups]


def _unplaced(name: str, intake: IntakeStatus) -> Row:
    unknown = {one: cell(NONE, -1) for one in ("room", "limit", "files", "full")}
    state = cell(intake.problem or "in use", over=intake.problem is not None)
    return row(name, group=name, size=_size(intake.log_mib * 2**20), problem=state, **unknown)


def _journal(name: str, journal: JournalStorage, group: GroupStatus | None) -> Row:
    return row(
        name,
        group=name,
        size=_size(journal.size_bytes),
        room=_size(journal.room_bytes),
        limit=_size(journal.limit_bytes),
        files=_count(journal.room_bytes // journal.segment_bytes),
        full=_estimated(None if group is None else group.full_in_s),
        problem=cell(journal.problem or "in use", over=journal.problem is not None),
    )


def account_rows(status: Status) -> list[Row]:
    """Where every reading of each group went."""
    return [_account(name, group) for name, group in status.groups.items()]


def beside_rows(status: Status) -> list[Row]:
    """What else became of the readings and the triggers of each group."""
    return [_beside(name, group) for name, group in status.groups.items()]


def _account(name: str, group: GroupStatus) -> Row:
    readings = group.readings
    plain = {
        "received": readings.received,
        "committed": readings.committed,
        "duplicate": readings.duplicate,
        "waiting": readings.waiting,
        "assembling": readings.assembling,
    }
    dead = _count(readings.dead, over=group.dead_now != 0)
    alarming = {
        "refused": sum(readings.refused.values()),
        "aside": sum(readings.aside.values()),
        "unaccounted": readings.unaccounted,
    }
    return row(name, group=name, dead=dead, **_counts(plain, alarming))


def _beside(name: str, group: GroupStatus) -> Row:
    readings, triggers = group.readings, group.triggers
    plain = {
        "late": readings.late,
        "complete": triggers.complete,
        "incomplete": triggers.incomplete,
        "skipped": triggers.skipped,
    }
    alarming = {"letters": group.dead_letters.readings, "lost": sum(readings.lost.values())}
    return row(name, group=name, **_counts(plain, alarming))


def _counts(plain: dict[str, int], alarming: dict[str, int]) -> dict[str, Cell]:
    """Cells of counts; an alarming one stands out unless it is 0."""
    cells = {one: _count(value) for one, value in plain.items()}
    return cells | {one: _count(value, over=value != 0) for one, value in alarming.items()}


def account_note(status: Status) -> str:
    """Why readings were refused, set aside or lost."""
    found = []
    for name, group in status.groups.items():
        readings = group.readings
        found += [("refused", name, readings.refused), ("aside", name, readings.aside), ("lost", name, readings.lost)]
    for name, intake in status.intakes.items():
        found += [("refused", name, intake.refused), ("lost", name, intake.lost)]
    return " · ".join(f"{what}: {name}: {reasons(counts)}" for what, name, counts in found if any(counts.values()))


def _count(value: int, *, over: bool = False) -> Cell:
    return cell(count(value), value, over=over)


def _size(value: float | None) -> Cell:
    return cell(size(value), -1 if value is None else value)


def _estimated(seconds: float | None) -> Cell:
    return cell(NONE, -1) if seconds is None else cell(about(coarse(seconds)), seconds)


def _age(seconds: float | None) -> str:
    return "not known yet" if seconds is None else f"{lasted(seconds)} ago"


def _moment(time_ns: int) -> str:
    if abs(time_ns) > NO_END:
        return NONE
    form = "%Y-%m-%d %H:%M" if time_ns % DAY_NS else "%Y-%m-%d"
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime(form)

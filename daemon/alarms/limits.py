"""Alarms of limits that the configuration sets: they come beyond a limit, and go only once well within it again."""

from collections.abc import Iterator

from daemon.alarms.alarm import LISTED_MOST, Alarm, Cause, Severity, named, ranked
from schemas.api.status import GroupStatus, Latency, Status
from schemas.states import DaemonState, InstrumentState

WITHIN = 0.9
"""An alarm in force goes once what it is about is within so much of its limit: at the limit itself it would flicker."""

DAY_S = 86_400
AFTER_S = 3.0
"""A backlog of a moment is how batching works."""

Known = frozenset[str]
"""Keys of the alarms that are in force."""


def eased(cause: Cause, known: Known) -> float:
    """The part of its limit within which an alarm goes, if it is in force; else the limit counts as it is."""
    return WITHIN if cause in known else 1.0


def stale_data(status: Status, known: Known) -> Iterator[Alarm]:
    """Nothing comes: silence of all instruments together, which the grid calls a machine at rest."""
    limit = status.limits.get("quiet_s")
    if limit is None or status.state not in (DaemonState.RUNNING, DaemonState.STORE_AWAY):
        return
    # A channel that reports on change says nothing while nothing changes.
    quiet = {name: _quiet_s(group, status) for name, group in status.groups.items() if group.folder is None}
    stale = {name: seconds for name, seconds in quiet.items() if seconds > limit}
    if not stale:
        return
    if len(stale) > LISTED_MOST:
        where = f"{len(stale)} groups for {min(stale.values()):,.0f} s or longer"
    else:
        where = ", ".join(
            f"{name} since the daemon started"
            if status.groups[name].quiet_s is None
            else f"{name} for {seconds:,.0f} s"
            for name, seconds in stale.items()
        )
    yield Alarm(
        cause=Cause.STALE,
        severity=Severity.WARNING,
        text=f"No readings come: {where}",
        fix="Acknowledge it if the machine is at rest; else look at the trigger, and at the senders' connections.",
        extent=len(stale),
        groups=tuple(stale),
    )


def _quiet_s(group: GroupStatus, status: Status) -> float:
    return status.uptime_s if group.quiet_s is None else group.quiet_s


CLOCK_AFTER_S = 10.0
"""A crate that was cut off sends what it kept, all at once and late."""


def clocks(status: Status, known: Known) -> Iterator[Alarm]:
    """All clocks of a group are wrong, or that of the node is: instruments compared with each other agree."""
    limit = status.limits.get("node_clock_s")
    ahead = {name: group.ahead_s for name, group in status.groups.items() if group.ahead_s is not None}
    if limit is None:
        return
    off = {name: seconds for name, seconds in ahead.items() if abs(seconds) > limit * eased(Cause.CLOCK, known)}
    if not off:
        return
    late = "" if any(seconds > 0 for seconds in off.values()) else ", or see why readings come so late"
    yield Alarm(
        cause=Cause.CLOCK,
        severity=Severity.WARNING,
        text=f"Times differ from the clock of this node: {ranked(off, _apart)}",
        fix=f"{NODE_CLOCK[status.clock_is_synchronised]} Set the clocks right{late}: readings are stored under their "
        "own times, where nobody looks for them.",
        extent=max(abs(seconds) for seconds in off.values()),
        groups=tuple(off),
        after_s=CLOCK_AFTER_S,
    )


def _apart(seconds: float) -> str:
    return f"{lasting(abs(seconds))} {'ahead' if seconds > 0 else 'behind'}"


NODE_CLOCK = {
    True: "The node's own clock follows a time server.",
    False: "The node's own clock follows no time server (`timedatectl`), and may be the wrong one.",
    None: "Whether the node's own clock follows a time server is not known.",
}


def missing_instruments(status: Status, known: Known) -> Iterator[Alarm]:
    """However many instruments fail together, it is one alarm."""
    groups = {name: group for name, group in status.groups.items() if group.folder is None}
    by_group = {
        state: {name: n for name, group in groups.items() if (n := group.count(state))}
        for state in (InstrumentState.SILENT, InstrumentState.NEVER, InstrumentState.MISSING)
    }
    counts = {state: sum(groups.values()) for state, groups in by_group.items()}
    total = sum(counts.values())
    if not total or total < status.limits.get("missing_instruments", 1):
        return
    stale = status.limits.get("stale_s")
    words = {
        InstrumentState.SILENT: "silent" if stale is None else f"silent for more than {stale:g} s",
        InstrumentState.NEVER: "never heard",
        InstrumentState.MISSING: "missing from some of the last triggers",
    }
    parts = [f"{n} {words[state]}{_by_group(by_group[state], status)}" for state, n in counts.items() if n]
    gone = counts[InstrumentState.SILENT] + counts[InstrumentState.NEVER]
    yield Alarm(
        cause=Cause.INSTRUMENTS,
        severity=Severity.WARNING if gone else Severity.NOTE,
        text=f"Instruments: {', '.join(parts)}",
        fix="The page's tab Instruments says when each was last heard."
        if gone
        else "The page's tab Instruments lists who is missing most, and from when on.",
        extent=total,
        groups=tuple(dict.fromkeys(name for counted in by_group.values() for name in counted)),
    )


def _by_group(counts: dict[str, int], status: Status) -> str:
    if len(status.groups) == 1:
        return ""
    return f" ({ranked(counts, '{:,}'.format) if len(counts) > 1 else next(iter(counts))})"


def commit_p99(status: Status, known: Known) -> Iterator[Alarm]:
    """Commits take longer than they may; while the database is away, or what waited drains, that is why."""
    limit = status.limits.get("commit_p99_ms")
    if limit is None or not status.store.available:
        return
    beyond = limit * eased(Cause.LATENCY, known)
    groups = {name: group.commit_ms for name, group in status.groups.items() if not group.drained_in_s}
    over = {name: slow for name, ms in groups.items() if (slow := _tail(ms)) > beyond}
    if over:
        what = "p99" if all(groups[name].is_p99_known for name in over) else "latency"
        yield Alarm(
            cause=Cause.LATENCY,
            severity=Severity.WARNING,
            text=f"Commit {what} {_by(limit, max(over.values()))} its budget of {limit:g} ms: {ranked(over, _latency)}",
            fix="Look at the backlog: if it grows too, the database cannot keep up. The page's tab Reads says who "
            "reads.",
            extent=max(over.values()),
            groups=tuple(over),
        )


def _tail(ms: Latency) -> float:
    return (ms.p99 if ms.is_p99_known else ms.tail) or 0.0


def _by(limit: float, value: float) -> str:
    """An alarm that stays for a while within its limit must not say that the limit is broken still."""
    return "over" if value > limit else "just within"


def backlog(status: Status, known: Known) -> Iterator[Alarm]:
    """More waits than may; a database that is away has an alarm of its own."""
    limit = status.limits.get("backlog_triggers")
    if limit is None or not status.store.available:
        return
    beyond = limit * eased(Cause.BACKLOG, known)
    over = {name: group for name, group in status.groups.items() if group.waiting > beyond}
    if over:
        most = max(group.waiting for group in over.values())
        if len(over) > LISTED_MOST:
            parts = ranked({name: group.waiting for name, group in over.items()}, "{:,}".format)
        else:
            parts = ", ".join(f"{name} {group.waiting:,} ({_outlook(group)})" for name, group in over.items())
        yield Alarm(
            cause=Cause.BACKLOG,
            severity=Severity.WARNING,
            text=f"Backlog {_by(limit, most)} its limit of {limit:,g} triggers: {parts}",
            fix="After an outage it drains by itself. If it grows, the database is too slow: see who reads, and "
            "its disk.",
            extent=most,
            groups=tuple(over),
            after_s=AFTER_S,
        )


def _latency(ms: float) -> str:
    return f"{ms:.3g} ms" if ms < 1000 else f"{ms / 1e3:,.1f} s"


def _outlook(group: GroupStatus) -> str:
    if group.drained_in_s is None:
        return "not becoming less"
    return "drained" if not group.drained_in_s else f"drained in {lasting(group.drained_in_s)}"


def journal_filling(status: Status, known: Known) -> Iterator[Alarm]:
    """What waits will soon have no room; only while it does not become less."""
    limit_min = status.limits.get("journal_full_in_min")
    if limit_min is None:
        return
    within_s = limit_min * 60 / eased(Cause.FILLING, known)
    filling = {
        name: group.full_in_s
        for name, group in status.groups.items()
        if group.full_in_s is not None and group.full_in_s < within_s and _grows(group, status)
    }
    if filling:
        soonest = min(filling.values())
        yield Alarm(
            cause=Cause.FILLING,
            severity=Severity.CRITICAL if soonest < limit_min * 20 else Severity.WARNING,
            text=f"{_where(status)} full in {lasting(soonest)} ({named(filling)}): then senders are held back",
            fix="Bring the database back, or make room: `journal.max_mib` takes effect with a reload (SIGHUP); "
            "what else lies on that disk may be moved.",
            groups=tuple(filling),
            after_s=AFTER_S,
        )


NEARLY_FULL_BYTES = 2**30
"""With less than this free a disk is as good as full: a server needs some for what it does beside writing rows."""


def disk_filling(status: Status, known: Known) -> Iterator[Alarm]:
    """The disk of the state folder is nearly full, or will be soon by the growth of the database on it."""
    limit, disk = status.limits.get("disk_full_in_days"), status.disk
    if limit is None or disk is None:
        return
    factor = 1 / eased(Cause.DISK, known)
    days = disk.full_in_days
    is_nearly_full = disk.free_bytes < NEARLY_FULL_BYTES * factor
    if not is_nearly_full and (days is None or days >= limit * factor):
        return
    free = f"{disk.free_bytes / 2**30:,.1f} GiB free"
    soon = f"full in {lasting(days * DAY_S)}, at the growth of the last day" if days is not None else "nearly full"
    yield Alarm(
        cause=Cause.DISK,
        severity=Severity.CRITICAL if is_nearly_full or (days is not None and days < 1) else Severity.WARNING,
        text=f"The disk of the state folder is {soon} ({free})",
        fix="Remove old partitions, or move what else lies on that disk: docs/operations.md has the commands.",
        after_s=AFTER_S,
    )


def _grows(group: GroupStatus, status: Status) -> bool:
    return group.waiting > 0 and (group.drained_in_s is None or not status.store.available)


def _where(status: Status) -> str:
    return "The journal is" if any(group.journal_mib for group in status.groups.values()) else "Memory is"


def lasting(seconds: float) -> str:
    """About how long, in one unit."""
    for unit, name, least in ((86_400, "days", 172_800), (3600, "h", 6000), (60, "min", 100)):
        if seconds >= least:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:.0f} s"

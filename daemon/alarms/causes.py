"""The alarms that a status snapshot gives rise to: the most severe first, none when all is well."""

from collections.abc import Iterator

from daemon.alarms import gaps, limits, services
from daemon.alarms.alarm import Alarm, Cause, Severity, named
from daemon.alarms.limits import Known, lasting
from schemas.api.status import Shortfall, Status
from schemas.batch import Durability
from schemas.states import DaemonState, SlipKind


def alarms(status: Status, known: Known = frozenset()) -> list[Alarm]:
    """Every alarm that a snapshot gives rise to; many instruments that fail together are one alarm.

    known: keys of those in force already, which go later than they came.
    """
    found = [
        alarm
        for cause in (_store, _rejected, _unwritten, _held_back, _durability, _desynchronised, _unavailable)
        for alarm in cause(status)
    ]
    found += [alarm for limit in LIMITS for alarm in limit(status, known)]
    return sorted(found, key=lambda alarm: alarm.severity)


LIMITS = (
    gaps.lost,
    gaps.skipped,
    gaps.epochs,
    gaps.aside,
    limits.journal_filling,
    limits.disk_filling,
    services.retention_not_met,
    services.decimation_not_met,
    services.tiers_not_met,
    limits.stale_data,
    limits.clocks,
    limits.missing_instruments,
    limits.commit_p99,
    limits.backlog,
    services.visits_failed,
    services.visits_standing,
    services.visits_slow,
    services.not_served,
)


STARTED_S = 10.0
"""A database that went away so soon after the start may have been away before."""


def _store(status: Status) -> Iterator[Alarm]:
    store = status.store
    if store.available and status.state is not DaemonState.STORE_AWAY:
        return
    starting = status.state is DaemonState.STARTING
    why = f": {store.problem}" if store.problem else ""
    asked = f"`{store.probe}`, " if store.probe else ""
    look = (
        "it is tried again by itself; if it stays away, see the daemon's log and the free space of the disk"
        if store.embedded
        else f"see to what it says, or that {store.target} answers ({asked}network, free space); it is tried again"
    )
    yield Alarm(
        cause=Cause.STORE,
        severity=Severity.NOTE if starting else Severity.CRITICAL,
        text=f"{'Waiting for the database' if starting else 'Database away'}{why}",
        fix=f"Readings wait {_waiting(status)}; {look}.",
        began_s=status.time_ns / 1e9 - store.away_s,
        may_be_older=store.away_s + STARTED_S > status.uptime_s,
    )


def _waiting(status: Status) -> str:
    if status.intakes and not status.groups:
        readings = sum(intake.waiting for intake in status.intakes.values())
        log_mib = sum(intake.log_mib for intake in status.intakes.values())
        return f"in the journal ({readings:,} readings, {log_mib:,.0f} MiB)"
    triggers = sum(group.triggers.waiting for group in status.groups.values())
    journal = sum(group.journal_mib for group in status.groups.values())
    memory = sum(group.backlog_mib for group in status.groups.values())
    where, mib = ("the journal", journal) if journal else ("memory", memory)
    return f"in {where} ({triggers:,} triggers, {mib:,.0f} MiB{_room(status)})"


def _room(status: Status) -> str:
    times = [group.full_in_s for group in status.groups.values() if group.full_in_s is not None]
    return f", room for {lasting(min(times))} more" if times else ""


def _rejected(status: Status) -> Iterator[Alarm]:
    lie = {name: group.dead_letters.readings - group.dead_letters.aside for name, group in status.groups.items()}
    lying = sum(lie.values())
    gone = sum(group.dead_now for group in status.groups.values())
    if lying:
        yield Alarm(
            cause=Cause.DEAD,
            severity=Severity.CRITICAL,
            text=f"{lying:,} readings lie in the dead letters: the database rejected them for good",
            fix="`triggerlog dead-letters list FILE` tells why; fix the cause, then `dead-letters retry FILE`.",
            extent=lying,
            groups=tuple(name for name, count in lie.items() if count),
        )
    elif gone:
        yield Alarm(
            cause=Cause.DEAD,
            severity=Severity.CRITICAL,
            text=f"{gone:,} readings are in neither the database nor the dead letters",
            fix="`triggerlog events` says why: they were damaged in the state folder, which keeps what is left, or "
            "the database lost them.",
            extent=gone,
            groups=tuple(name for name, group in status.groups.items() if group.dead_now),
        )


def _unwritten(status: Status) -> Iterator[Alarm]:
    """The journal cannot be written: with the database away, too, nothing is safe any more."""
    journals = {name: group.journal_problem for name, group in status.groups.items() if group.journal_problem}
    logs = {name: intake.problem for name, intake in status.intakes.items() if intake.problem}
    problems = list(dict.fromkeys([*journals.values(), *logs.values()]))
    if problems:
        yield Alarm(
            cause=Cause.JOURNAL,
            severity=Severity.WARNING if status.store.available else Severity.CRITICAL,
            text=f"The journal takes nothing ({named({**journals, **logs})}): {'; '.join(problems)}",
            fix="Make room (`journal.max_mib`, the disk of the state folder), or repair the disk; it is tried again "
            "each second. Until then nothing is acknowledged as `received` before the database has it.",
            after_s=limits.AFTER_S,
            groups=tuple({**journals, **logs}),
        )


def _held_back(status: Status) -> Iterator[Alarm]:
    waiting = [name for name, group in status.groups.items() if group.backpressure]
    if waiting:
        yield Alarm(
            cause=Cause.BACKPRESSURE,
            severity=Severity.CRITICAL,
            text=f"Senders are held back ({named(waiting)}): as much waits for the database as may",
            fix="TCP senders wait and lose nothing, datagrams are refused. See what slows the database.",
            groups=tuple(waiting),
        )


def _durability(status: Status) -> Iterator[Alarm]:
    """Where the server keeps less than is asked of it.

    A warning, not critical: nothing is being lost, and nothing will be until the server crashes. It is an operator's
    task for today, and must not stand above what loses readings now.
    """
    alike: dict[Shortfall, list[Durability]] = {}
    for durability, shortfall in status.store.shortfall.items():
        alike.setdefault(shortfall, []).append(durability)
    for shortfall, asked in alike.items():
        groups = [name for name, group in status.groups.items() if group.durability in asked]
        yield Alarm(
            cause=Cause.DURABILITY,
            subject=asked[0],
            severity=Severity.WARNING,
            text=f"Durability {' and '.join(asked)} is not kept ({named(groups)}): {shortfall.problem}",
            fix=f"{shortfall.fix[:1].upper()}{shortfall.fix[1:]}. Until then a crash of the server may take "
            "readings it acknowledged.",
            groups=tuple(groups),
        )


NAMED = 3
"""Instruments out of step, or figures that fail, that the alarm names."""


MENDS = {
    SlipKind.SLIPPED: "Compare its trigger counter with another's: where it differs set it right, else its clock; "
    "until then its readings stand in the wrong triggers.",
    SlipKind.CLOCK: "Set its clock right; its trigger numbers are those of the others or cannot be checked.",
    SlipKind.IRREGULAR: "See whether it counts each trigger once (cable, firmware) and whether its clock is steady; "
    "until then its readings stand in the wrong triggers.",
    SlipKind.STUCK: "See why it counts no triggers (its trigger cable, its firmware): its readings go to the dead "
    "letters.",
}


def _desynchronised(status: Status) -> Iterator[Alarm]:
    """A warning: nothing is lost, but until it is fixed readings stand in a trigger that is not theirs."""
    count = sum(group.desynchronised_now for group in status.groups.values())
    slips = [slip for group in status.groups.values() for slip in group.slips]
    if not count:
        return
    named = "; ".join(f"{slip.instrument} is {slip}" for slip in slips[:NAMED])
    more = f"; and {count - NAMED:,} more" if count > NAMED else ""
    fixes = dict.fromkeys(MENDS[slip.kind] for slip in slips)
    yield Alarm(
        cause=Cause.DESYNCHRONISED,
        severity=Severity.WARNING,
        text=f"{count:,} instrument{'s' if count != 1 else ''} out of step: {named}{more}",
        fix=" ".join(fixes),
        extent=count,
        groups=tuple(name for name, group in status.groups.items() if group.desynchronised_now),
    )


def _unavailable(status: Status) -> Iterator[Alarm]:
    """A warning: readings are logged all the same, but what depends on these figures may be missing or old."""
    failing = status.unavailable
    if not failing:
        return
    named = "; ".join(f"{name}: {why}" for name, why in list(failing.items())[:NAMED])
    more = f"; and {len(failing) - NAMED:,} more" if len(failing) > NAMED else ""
    yield Alarm(
        cause=Cause.UNAVAILABLE,
        severity=Severity.WARNING,
        text=f"Not available ({len(failing):,}): {named}{more}",
        fix="Readings are logged all the same, and it is tried again by itself. Free what the error names (open files, "
        "memory, disk); if it stays, report it with the daemon's log.",
        extent=len(failing),
        after_s=limits.AFTER_S,
    )

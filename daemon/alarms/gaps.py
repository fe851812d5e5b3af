"""Alarms of gaps: readings that are lost, trigger numbers that never came, readings for no trigger that is known."""

from collections.abc import Iterable, Iterator, Mapping

from daemon.alarms.alarm import Alarm, Cause, Severity, named, ranked
from daemon.alarms.limits import Known, eased, lasting
from schemas.api.status import BRIEF_RUNS_MOST, LATELY_S, GroupStatus, Status

LATELY = f"in the last {lasting(LATELY_S)}"

HOWS = {
    "sender": "senders no longer had {:,}",
    "datagrams": "about {:,} in datagrams",
    "database": "the database lacks {:,}",
}
"""How readings got lost, by the names of the status."""

OTHER_HOW = "{:,} by way of '{}'"

FIXES = {
    "database": "See whether the database was restored from a copy, or is another; `triggerlog reconcile` compares.",
    "sender": "See what kept the senders away for longer than they can hold readings, or let them hold more.",
    "datagrams": "See whether the network or `receive_buffer_kib` is too small for the datagrams, or send over TCP.",
}
"""What to do, of how they got lost the worst first."""

OTHER_FIX = "See the log of the daemon; a page of its version says more."


def lost(status: Status, known: Known) -> Iterator[Alarm]:
    """Readings are proven lost. Critical but for datagrams, of which a network may lose some."""
    over = _over(_all_lost(status), "lost_readings", Cause.LOST, status, known)
    if not over:
        return
    recent = [status.groups[name].readings.lost_lately for name in over]
    ways = dict.fromkeys([*HOWS, *(how for group in recent for how in group)])  # a newer daemon may know more
    hows = {how: sum(group[how].count for group in recent if how in group) for how in ways}
    yield Alarm(
        cause=Cause.LOST,
        severity=Severity.WARNING if hows["datagrams"] == sum(hows.values()) else Severity.CRITICAL,
        text=f"Readings lost {LATELY}: {ranked(over, '{:,}'.format)}"
        f" ({', '.join(HOWS.get(how, OTHER_HOW).format(count, how) for how, count in hows.items() if count)})",
        fix=next((fix for how, fix in FIXES.items() if hows[how]), OTHER_FIX),
        extent=sum(over.values()),
        groups=tuple(over),
        began_s=_earliest_s(one.since_ns for group in recent for one in group.values()),
    )


def _all_lost(status: Status) -> dict[str, int]:
    return {
        name: sum(recent.count for recent in group.readings.lost_lately.values())
        for name, group in status.groups.items()
    }


def skipped(status: Status, known: Known) -> Iterator[Alarm]:
    """Trigger numbers were left out: no reading of them came from any instrument."""
    recent = {name: group.triggers.skipped_lately for name, group in status.groups.items()}
    counts = {name: one.count for name, one in recent.items()}
    over = _over(counts, "skipped_triggers", Cause.SKIPPED, status, known)
    if over:
        yield Alarm(
            cause=Cause.SKIPPED,
            severity=Severity.WARNING,
            text=f"Trigger numbers that never came, {LATELY}: {ranked(over, '{:,}'.format)}",
            fix="Look at the timing system, and at what all senders have in common. The events name the numbers; "
            "`/api/v1/groups/GROUP/gaps` lists all.",
            extent=sum(over.values()),
            groups=tuple(over),
            began_s=_earliest_s(recent[name].since_ns for name in over),
        )


def epochs(status: Status, known: Known) -> Iterator[Alarm]:
    """Yield an alarm of groups whose epoch changes with each trigger."""
    groups = tuple(name for name, group in status.groups.items() if group.brief_runs >= BRIEF_RUNS_MOST)
    if groups:
        yield Alarm(
            cause=Cause.EPOCHS,
            severity=Severity.WARNING,
            text=f"The epoch changes with each trigger, and each is a run of its own: {named(groups)}",
            fix="The epoch counts restarts of the timing system: let the senders keep it between two of these (a "
            "timestamp is none), or send 0 and announce each restart with `triggerlog announce-run FILE`.",
            extent=len(groups),
            groups=groups,
        )


def aside(status: Status, known: Known) -> Iterator[Alarm]:
    """Readings were set aside, and nobody has dealt with them. A warning: they are kept."""
    counts = {name: group.dead_letters.aside for name, group in status.groups.items()}
    over = _over(counts, "aside_readings", Cause.ASIDE, status, known)
    if over:
        why = _reasons(status.groups[name] for name in over)
        what = "Readings set aside, as they are for no trigger that is known"
        if all(status.groups[name].folder is not None for name in over):
            what = "Reports set aside, as they cannot be stored"
        yield Alarm(
            cause=Cause.ASIDE,
            severity=Severity.WARNING,
            text=f"{what}: {ranked(over, '{:,}'.format)}{why}",
            fix="`triggerlog dead-letters list FILE` tells why: look at their trigger numbers, clocks and epochs. If "
            "the timing system was restarted and the run is still the old one, `triggerlog announce-run FILE`. "
            "`dead-letters export` writes them to a file, `discard` deletes them.",
            extent=sum(over.values()),
            groups=tuple(over),
            began_s=_earliest_s(status.groups[name].dead_letters.aside_since_ns for name in over),
        )


def _reasons(groups: Iterable[GroupStatus]) -> str:
    """Why, as far as it happened since the daemon started."""
    counts: dict[str, int] = {}
    for group in groups:
        for reason, count in group.readings.aside.items():
            counts[reason] = counts.get(reason, 0) + count
    parts = [f"{reason} {count:,}" for reason, count in counts.items() if count > 0]
    return f" ({', '.join(parts)} since the start)" if parts else ""


def _over(counts: Mapping[str, int], limit: str, cause: Cause, status: Status, known: Known) -> dict[str, int]:
    """The groups at their limit or over it; of an alarm in force those that are not well within it."""
    least = status.limits.get(limit)
    if least is None:
        return {}
    least *= eased(cause, known)
    return {name: count for name, count in counts.items() if count and count >= least}


def _earliest_s(times_ns: Iterable[int | None]) -> float | None:
    return min((time_ns / 1e9 for time_ns in times_ns if time_ns is not None), default=None)

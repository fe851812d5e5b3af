"""Alarms of what works beside the readings: retention, tiers, decimation, conditions, mock DIA visits."""

from collections.abc import Iterator

from daemon.alarms.alarm import Alarm, Cause, Severity
from daemon.alarms.limits import Known, lasting
from schemas.api.status import Status
from schemas.api.visits import VisitsStatus
from schemas.states import ConditionsState, RunState, VisitsPhase

OLD_DATA_AFTER_S = 30.0
"""A database that is away for a moment is tried again."""


def retention_not_met(status: Status, known: Known) -> Iterator[Alarm]:
    """What is left takes more than it may, or nobody can tell."""
    found = status.retention
    if found is None:
        return
    if found.short:
        held = f" ({'; '.join(found.held)})" if found.held else ""
        yield Alarm(
            cause=Cause.RETENTION,
            severity=Severity.WARNING,
            text=f"Retention cannot meet its limits: {'; '.join(found.short)}; only the newest partitions are left, "
            f"ledgers, and what something waits for{held}",
            fix="Make room on the database's disk, raise the limit in [retention], or set a shorter "
            "`database.partition`; dead letters: `triggerlog dead-letters retry FILE`, or discard them.",
            after_s=OLD_DATA_AFTER_S,
        )
    elif found.problem is not None and status.store.available:
        yield Alarm(
            cause=Cause.RETENTION,
            severity=Severity.WARNING,
            text=f"Retention cannot drop all that its limits ask for: {found.problem}",
            fix="A table in use: end the session that reads it without an end. A right that is lacking: grant what "
            "`triggerlog schema FILE` prints. A disk: correct `retention.disk`. A clock: set it. It is tried again "
            "by itself.",
            after_s=OLD_DATA_AFTER_S,
        )


def tiers_not_met(status: Status, known: Known) -> Iterator[Alarm]:
    """What is left in a tier takes more than it may, or nobody can move it."""
    found = status.tiers
    if found is None:
        return
    if found.short:
        held = f" ({'; '.join(found.held)})" if found.held else ""
        yield Alarm(
            cause=Cause.TIERS,
            severity=Severity.WARNING,
            text=f"{'; '.join(found.short)}: only the newest partitions are left there, ledgers, indexes, and what"
            f" something waits for{held}",
            fix="Raise `max_gib` of the tier in [[tiers]], or set a shorter `database.partition`.",
            after_s=OLD_DATA_AFTER_S,
        )
    elif found.problem is not None and status.store.available:
        yield Alarm(
            cause=Cause.TIERS,
            severity=Severity.WARNING,
            text=f"No partition can be moved to another tier: {found.problem}",
            fix="A table in use is waited for: end who reads it without an end. Make room on the disk of the tier, or "
            "grant the right that is lacking. It is tried again by itself.",
            after_s=OLD_DATA_AFTER_S,
        )


def decimation_not_met(status: Status, known: Known) -> Iterator[Alarm]:
    """Nobody can reduce what has to be."""
    found = status.decimation
    if found is not None and found.problem is not None and status.store.available:
        yield Alarm(
            cause=Cause.DECIMATION,
            severity=Severity.WARNING,
            text=f"Decimation cannot reduce all that it has to: {found.problem}",
            fix="A table in use is waited for: end who reads it without an end. Make room on the database's disk, or "
            "grant the right that is lacking. A clock: set it. It is tried again by itself.",
            after_s=OLD_DATA_AFTER_S,
        )


# --- conditions ------------------------------------------------------------------------------------------------------

SERVED_AFTER_S = 10.0
"""A process that died is back within seconds."""


def not_served(status: Status, known: Known) -> Iterator[Alarm]:
    """Programs that ask for conditions get no answer, or none to everything."""
    server = status.conditions
    if server is None or server.state in (ConditionsState.STARTING, ConditionsState.RUNNING):
        return
    why = f": {server.problem}" if server.problem else ""
    is_away = server.state is ConditionsState.DATABASE_AWAY
    yield Alarm(
        cause=Cause.CONDITIONS,
        severity=Severity.WARNING,
        text=f"Conditions are answered from memory alone, their database is away{why}"
        if is_away
        else f"{server.processes - server.running} of {server.processes} servers of conditions do not run{why}",
        fix="Frozen tags in memory are answered, everything else with 503. See that the database answers; it is tried "
        "again by itself."
        if is_away
        else "It is started again by itself; its log in the state folder, `conditions/`, says more.",
        began_s=server.since_ns / 1e9,
        after_s=SERVED_AFTER_S,
    )


# --- mock DIA visits -------------------------------------------------------------------------------------------------


def visits_failed(status: Status, known: Known) -> Iterator[Alarm]:
    """A run has ended by itself, before its last visit."""
    run = status.visits
    if run is not None and run.state is RunState.FAILED:
        why = f": {run.problem}" if run.problem else ""
        yield Alarm(
            cause=Cause.VISITS,
            severity=_visits_severity(status),
            text=f"Visits failed after {run.done:,} of {run.visits:,}{why}",
            fix="Fix the cause and start a run with the same settings on the page's tab Visits: it goes on where this "
            "one stopped.",
        )


def visits_standing(status: Status, known: Known) -> Iterator[Alarm]:
    """A visit is under way for too long."""
    run, limit_s = status.visits, status.limits.get("visit_stands_s")
    if run is None or limit_s is None or not _is_at_work(run):
        return
    # A run that goes on after a restart of the daemon began long ago, and has not stood since.
    still_s = min((status.time_ns - max(run.since_ns, run.last_ns or 0)) / 1e9, status.uptime_s)
    if still_s > limit_s:
        why = f": {run.problem}" if run.problem else ""
        yield Alarm(
            cause=Cause.VISITS,
            severity=_visits_severity(status),
            text=f"Visits stand still after {run.done:,}: none was done for {lasting(still_s)}{why}",
            fix=f"See whether {run.target} answers and what it waits for; a visit that is cut short is done again.",
            extent=still_s,
        )


def visits_slow(status: Status, known: Known) -> Iterator[Alarm]:
    """The last visits took longer than they may, all of them."""
    run, most = status.visits, status.limits.get("slow_visits")
    if run is None or most is None or run.slow < most or run.state is RunState.FAILED:
        return
    limit_s = min(run.limit_s, run.interval_s or run.limit_s)
    what = "the interval" if limit_s != run.limit_s else "the limit"
    last = "" if run.last is None else f", the last one {run.last.visit_s:.3g} s"
    yield Alarm(
        cause=Cause.SLOW_VISITS,
        severity=_visits_severity(status),
        text=f"The last {run.slow:,} visits took longer than {what} of {limit_s:g} s{last}",
        fix="The page's tab Visits shows which part grows; more tiles and workers, a shorter history or the index mode "
        "`partitioned` take less.",
        extent=run.slow,
    )


def _is_at_work(run: VisitsStatus) -> bool:
    """Whether something has to become done; between two visits nothing has."""
    if run.state is RunState.RUNNING:
        return run.phase is VisitsPhase.VISITING
    return run.state is RunState.STARTING


def _visits_severity(status: Status) -> Severity:
    return Severity.CRITICAL if status.limits.get("visits_are_critical") else Severity.WARNING

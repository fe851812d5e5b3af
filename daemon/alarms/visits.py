"""Alarms of mock DIA visits: a run that failed, one that stands still, and visits that take too long."""

from collections.abc import Iterator

from daemon.alarms.alarm import Alarm, Cause, Severity
from daemon.alarms.limits import Known, lasting
from schemas.api.status import Status
from schemas.api.visits import VisitsStatus
from schemas.states import RunState, VisitsPhase


def failed(status: Status, known: Known) -> Iterator[Alarm]:
    """A run has ended by itself, before its last visit."""
    run = status.visits
    if run is not None and run.state is RunState.FAILED:
        why = f": {run.problem}" if run.problem else ""
        yield Alarm(
            cause=Cause.VISITS,
            severity=_severity(status),
            text=f"Visits failed after {run.done:,} of {run.visits:,}{why}",
            fix="Fix the cause and start a run with the same settings on the page's tab Visits: it goes on where this "
            "one stopped.",
        )


def standing(status: Status, known: Known) -> Iterator[Alarm]:
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
            severity=_severity(status),
            text=f"Visits stand still after {run.done:,}: none was done for {lasting(still_s)}{why}",
            fix=f"See whether {run.target} answers and what it waits for; a visit that is cut short is done again.",
            extent=still_s,
        )


def slow(status: Status, known: Known) -> Iterator[Alarm]:
    """The last visits took longer than they may, all of them."""
    run, most = status.visits, status.limits.get("slow_visits")
    if run is None or most is None or run.slow < most or run.state is RunState.FAILED:
        return
    limit_s = min(run.limit_s, run.interval_s or run.limit_s)
    what = "the interval" if limit_s != run.limit_s else "the limit"
    last = "" if run.last is None else f", the last one {run.last.visit_s:.3g} s"
    yield Alarm(
        cause=Cause.SLOW_VISITS,
        severity=_severity(status),
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


def _severity(status: Status) -> Severity:
    return Severity.CRITICAL if status.limits.get("visits_are_critical") else Severity.WARNING

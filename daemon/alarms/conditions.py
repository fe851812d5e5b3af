"""Alarms of the server of conditions: it does not run, or its database does not answer."""

from collections.abc import Iterator

from daemon.alarms.alarm import Alarm, Cause, Severity
from daemon.alarms.limits import Known
from schemas.api.status import Status
from schemas.states import ConditionsState

AFTER_S = 10.0
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
        after_s=AFTER_S,
    )

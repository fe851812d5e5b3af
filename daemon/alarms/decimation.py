"""The alarm of decimation: readings that have to be reduced, and cannot be."""

from collections.abc import Iterator

from daemon.alarms.alarm import Alarm, Cause, Severity
from daemon.alarms.limits import Known
from daemon.alarms.retention import AFTER_S
from schemas.api.status import Status


def not_met(status: Status, known: Known) -> Iterator[Alarm]:
    """Nobody can reduce what has to be."""
    found = status.decimation
    if found is not None and found.problem is not None and status.store.available:
        yield Alarm(
            cause=Cause.DECIMATION,
            severity=Severity.WARNING,
            text=f"Decimation cannot reduce all that it has to: {found.problem}",
            fix="A table in use is waited for: end who reads it without an end. Make room on the database's disk, or "
            "grant the right that is lacking. A clock: set it. It is tried again by itself.",
            after_s=AFTER_S,
        )

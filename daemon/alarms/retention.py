"""Alarms of retention: a limit that is not met with all that may be dropped, or nothing that can be dropped."""

from collections.abc import Iterator

from daemon.alarms.alarm import Alarm, Cause, Severity
from daemon.alarms.limits import Known
from schemas.api.status import Status

AFTER_S = 30.0
"""A database that is away for a moment is tried again."""


def not_met(status: Status, known: Known) -> Iterator[Alarm]:
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
            after_s=AFTER_S,
        )
    elif found.problem is not None and status.store.available:
        yield Alarm(
            cause=Cause.RETENTION,
            severity=Severity.WARNING,
            text=f"Retention cannot drop all that its limits ask for: {found.problem}",
            fix="A table in use: end the session that reads it without an end. A right that is lacking: grant what "
            "`triggerlog schema FILE` prints. A disk: correct `retention.disk`. A clock: set it. It is tried again "
            "by itself.",
            after_s=AFTER_S,
        )

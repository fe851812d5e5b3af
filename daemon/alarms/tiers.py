"""Alarms of tiers: one that takes more than it may with all that may move on, or nothing that can be moved."""

from collections.abc import Iterator

from daemon.alarms.alarm import Alarm, Cause, Severity
from daemon.alarms.limits import Known
from daemon.alarms.retention import AFTER_S
from schemas.api.status import Status


def not_met(status: Status, known: Known) -> Iterator[Alarm]:
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
            after_s=AFTER_S,
        )
    elif found.problem is not None and status.store.available:
        yield Alarm(
            cause=Cause.TIERS,
            severity=Severity.WARNING,
            text=f"No partition can be moved to another tier: {found.problem}",
            fix="A table in use is waited for: end who reads it without an end. Make room on the disk of the tier, or "
            "grant the right that is lacking. It is tried again by itself.",
            after_s=AFTER_S,
        )

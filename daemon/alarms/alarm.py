"""What an alarm is."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Severity(IntEnum):
    """How severe an alarm is; the most severe first."""

    CRITICAL = 0  # readings are being lost, or soon will be
    WARNING = 1
    NOTE = 2


class Cause(StrEnum):
    """What gives rise to an alarm."""

    STORE = "store"  # the database does not answer
    DEAD = "dead"  # the database rejected readings for good
    LOST = "lost"  # readings got lost on their way to the daemon
    SKIPPED = "skipped"  # trigger numbers never came
    ASIDE = "aside"  # readings are for no trigger that is known
    BACKPRESSURE = "backpressure"  # senders have to wait
    DURABILITY = "durability"  # the server keeps less than is asked of it
    DESYNCHRONISED = "desynchronised"  # instruments are out of step
    STALE = "stale"  # no readings come
    CLOCK = "clock"  # a group's times and the node's clock differ
    INSTRUMENTS = "instruments"  # instruments are missing
    LATENCY = "latency"  # commits take too long
    BACKLOG = "backlog"  # too many triggers wait
    FILLING = "filling"  # the room to wait in runs out
    DISK = "disk"  # the disk of the embedded database runs out
    JOURNAL = "journal"  # the disk of the state folder takes nothing
    RETENTION = "retention"  # its limits cannot be met
    DECIMATION = "decimation"  # readings that have to be reduced cannot be
    TIERS = "tiers"  # one takes more than it may, or nothing can be moved
    VISITS = "visits"  # a run of visits failed or stands still
    SLOW_VISITS = "slow visits"
    CONDITIONS = "conditions"  # their server does not run, or its database is away


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """Something that is wrong.

    cause, subject: the same pair is the same alarm; subject tells apart alarms that may be in force together.
    text: what is wrong. fix: what to do.
    extent: how far it goes, in whatever counts: instruments, triggers, milliseconds.
    after_s: how long it has to last before it is shown.
    may_be_older: whether it may have begun before the daemon started, and not at began_s.
    began_s: when it began (UTC), where the status tells; else it began when it was first noticed.
    """

    cause: Cause
    subject: str = ""
    severity: Severity
    text: str
    fix: str
    extent: float = 1.0
    after_s: float = 0.0
    began_s: float | None = None
    may_be_older: bool = False

    @property
    def key(self) -> str:
        """By which people name it."""
        return f"{self.cause} {self.subject}" if self.subject else self.cause.value

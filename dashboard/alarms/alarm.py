"""What an alarm is."""

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """How grave an alarm is; the gravest first."""

    CRITICAL = 0  # readings are being lost, or soon will be
    WARNING = 1
    NOTE = 2


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """One line of the alarm strip."""

    key: str  # the cause: the same key is the same alarm
    severity: Severity
    text: str  # what is wrong
    action: str  # what to do
    extent: float = 1.0  # how far it goes, in whatever counts: instruments, triggers, milliseconds
    after_s: float = 0.0  # how long it has to last before it is told

"""Alarms and their severity."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum

from schemas.states import AlarmCause as Cause

__all__ = ["Alarm", "Cause", "Severity", "named", "ranked"]

LISTED_MOST = 3
"""Groups that an alarm lists; of more it tells their number and the worst."""


class Severity(IntEnum):
    """How severe an alarm is; the most severe first."""

    CRITICAL = 0  # readings are being lost, or soon will be
    WARNING = 1
    NOTE = 2


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """Something that is wrong.

    cause, subject: the same pair is the same alarm; subject tells apart alarms that may be in force together.
    text: what is wrong. fix: what to do.
    extent: how far it goes, in whatever counts: instruments, triggers, milliseconds.
    after_s: how long it has to last before it is shown.
    groups: those that it is about; none where it is about all of them, or about no readings.
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
    groups: tuple[str, ...] = ()
    began_s: float | None = None
    may_be_older: bool = False

    @property
    def key(self) -> str:
        """By which people name it."""
        return f"{self.cause} {self.subject}" if self.subject else self.cause.value


def named(groups: Collection[str]) -> str:
    """Return the names of some groups; of many their number and the first."""
    return ", ".join(groups) if len(groups) <= LISTED_MOST else f"{len(groups)} groups, {next(iter(groups))} the first"


def ranked(figures: Mapping[str, float], words: Callable[[float], str]) -> str:
    """Return groups with a figure each; of many their number, the range, and the worst: the one with the greatest."""
    if len(figures) <= LISTED_MOST:
        return ", ".join(f"{name} {words(figure)}" for name, figure in figures.items())
    low, high = words(min(figures.values())), words(max(figures.values()))
    between = f"{low} each" if low == high else f"{low} to {high}, worst {max(figures, key=figures.__getitem__)}"
    return f"{len(figures)} groups: {between}"

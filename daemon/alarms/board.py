"""The alarm board: since when an alarm is in force, and whether somebody acknowledged or shelved it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from daemon.alarms.alarm import Alarm, Severity
from daemon.alarms.causes import alarms
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.core.process.kept_file import KeptFile, Part, Remembered
from schemas.api.alarms import SHELVED_MOST_S, AlarmStatus
from schemas.api.status import Status
from schemas.marks import Mark
from schemas.states import AlarmCause, AlarmSeverity, Attention, DaemonState

# --- memory over a restart -------------------------------------------------------------------------------------------
# Without it alarms are shown in full again, which is the safe side.

FILE = "alarms.json"


class Acknowledged(Part):
    """An alarm as it was when somebody acknowledged it, at at_s; since_s: when it began (s since 1970, UTC)."""

    at_s: float
    since_s: float
    severity: Severity
    extent: float

    def moved(self, by_s: float) -> "Acknowledged":
        """The same at another time."""
        return self.model_copy(update={"at_s": self.at_s + by_s, "since_s": self.since_s + by_s})


class Shelf(Part):
    """Until when (s since 1970, UTC) an alarm is shelved, and how severe it was."""

    until_s: float
    severity: Severity

    def moved(self, by_s: float) -> "Shelf":
        """The same at another time."""
        return self.model_copy(update={"until_s": self.until_s + by_s})


class Marked(Part):
    """An alarm whose begin, since_s (s since 1970, UTC), was marked for these groups; None is for all."""

    since_s: float
    groups: tuple[str | None, ...]


class Memory(Remembered):
    """Acknowledgements, shelves, and what was marked, by the alarm's key, as at saved_s (s since 1970, UTC).

    marks: those that are to be made, and may have been.
    """

    version: Literal[1] = 1
    saved_s: float = 0.0
    acknowledged: dict[str, Acknowledged] = Field(default={})
    shelves: dict[str, Shelf] = Field(default={})
    marked: dict[str, Marked] = Field(default={})
    marks: tuple[Mark, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not (self.acknowledged or self.shelves or self.marked or self.marks)


class MemoryFile(KeptFile[Memory]):
    """Where a board's memory is kept, in the state folder."""

    def __init__(self, state_dir: Path, outside: Outside, events: Events) -> None:
        super().__init__(
            state_dir / FILE,
            Memory(),
            outside,
            events,
            unread="no alarm counts as acknowledged, shelved or marked",
            unwritten="a restart forgets what is acknowledged, shelved and marked",
        )


# --- the board -------------------------------------------------------------------------------------------------------

CLEAR_AFTER_S = 3.0
"""A cause has to be gone for so long before its alarm goes: one that flickers would train people to look away."""

WORSE = 2.0
"""An alarm that reaches so many times as far as when it was acknowledged is a new one."""

AWAY_MOST_S = 600.0
"""After a restart that took longer, an alarm whose beginning the status does not tell may be another one."""

JUMP_S = 5.0
"""The daemon's clock was set if it differs from what passed by more; by less it was slewed."""

RETURNS_WITHIN_S = 30.0
"""So long after its start a daemon has found out what was wrong before: at first it has heard of no instrument."""


@dataclass(kw_only=True)
class _Entry:
    """An alarm while its cause is there. worst: as it was when it went furthest."""

    alarm: Alarm
    since_s: float
    seen_s: float
    worst: Alarm
    acknowledged: Acknowledged | None = None

    @property
    def has_lasted(self) -> bool:
        """Whether it has lasted long enough."""
        return self.seen_s - self.since_s >= self.alarm.after_s

    def see(self, alarm: Alarm, now_s: float) -> None:
        """It is there still, and goes so far now."""
        self.alarm, self.seen_s = alarm, now_s
        if (alarm.severity, -alarm.extent) <= (self.worst.severity, -self.worst.extent):
            self.worst = alarm


@dataclass(frozen=True, kw_only=True)
class Cleared:
    """An alarm that is in force no more.

    text: as it was when it went furthest. lasted_s: how long it was there. ended_s: when it was last seen (UTC).
    """

    key: str
    text: str
    lasted_s: float
    ended_s: float


@dataclass(frozen=True, kw_only=True)
class InForce:
    """An alarm that is in force, since when (UTC), and for how long its cause has been there."""

    alarm: Alarm
    since_s: float
    lasted_s: float


def has_gone_on(alarm: Alarm, since_s: float, away_s: float) -> bool:
    """Whether an alarm is one that began at since_s, before a restart. away_s: how long nobody looked then."""
    if alarm.began_s is not None and abs(alarm.began_s - since_s) < CLEAR_AFTER_S:
        return True
    is_recent = 0 <= away_s <= AWAY_MOST_S
    return is_recent and (alarm.began_s is None or alarm.may_be_older)


class AlarmBoard:
    """Alarms with a memory.

    An acknowledgement holds until the alarm goes or becomes worse. A shelf holds until its end, also through an alarm
    that goes and comes again, or until it is more severe than when it was shelved.

    before: what a board remembered before a restart. An acknowledgement in it holds for the alarm that has gone on.
    """

    def __init__(self, before: Memory | None = None) -> None:
        self._before = before or Memory()
        self._entries: dict[str, _Entry] = {}
        self._cleared: list[Cleared] = []
        self._returning = dict(self._before.acknowledged)  # whether these alarms have gone on is not known yet
        self._shelves = dict(self._before.shelves)
        self._running_s: float | None = None  # since when the daemon commits
        self._now_s = self._before.saved_s
        self._up_s: float | None = None  # how long the daemon had been up then, in seconds that no clock changes

    def update(self, status: Status) -> list[AlarmStatus]:
        """Take in a snapshot; return the alarms in force, as `shown`."""
        now_s = status.time_ns / 1e9
        passed_s = 0.0 if self._up_s is None else status.uptime_s - self._up_s
        jump_s = now_s - self._now_s - passed_s
        if now_s < self._now_s or (self._up_s is not None and abs(jump_s) >= JUMP_S):
            self._shift(jump_s)
        self._now_s, self._up_s = now_s, status.uptime_s
        if self._running_s is None and status.state is DaemonState.RUNNING:
            self._running_s = now_s
        for alarm in alarms(status, frozenset(self._entries) | self._returning.keys()):
            entry = self._entries.get(alarm.key) or self._begin(alarm)
            entry.see(alarm, now_s)
            if entry.acknowledged is not None and self._is_worse(alarm, entry.acknowledged):
                entry.acknowledged = None
        over = [key for key, entry in self._entries.items() if now_s - entry.seen_s >= CLEAR_AFTER_S]
        for key in over:
            entry = self._entries.pop(key)
            if entry.has_lasted:
                lasted_s = entry.seen_s - entry.since_s
                gone = Cleared(key=key, text=entry.worst.text, lasted_s=lasted_s, ended_s=entry.seen_s)
                self._cleared.append(gone)
        if not self._is_early:
            self._returning.clear()
        for key, shelf in list(self._shelves.items()):
            # One that ends later than it may was put up while the clock was ahead.
            if not now_s < shelf.until_s <= now_s + SHELVED_MOST_S or self._is_more_severe(key, shelf):
                del self._shelves[key]
        return self.shown()

    def shown(self) -> list[AlarmStatus]:
        """The alarms in force; new ones first, the most severe and the most harmful of them on top."""
        found = [(entry.alarm, self._status(entry)) for entry in self._entries.values() if entry.has_lasted]
        found.sort(key=lambda each: (ORDER.index(each[1].attention), each[0].severity, HARM.index(each[0].cause)))
        return [status for _, status in found]

    def in_force(self) -> list[InForce]:
        """The alarms in force."""
        return [
            InForce(alarm=entry.alarm, since_s=entry.since_s, lasted_s=entry.seen_s - entry.since_s)
            for entry in self._entries.values()
            if entry.has_lasted
        ]

    def seen(self) -> frozenset[str]:
        """Keys of alarms whose causes are there, also of those that have not lasted long enough."""
        return frozenset(self._entries)

    @property
    def is_settled(self) -> bool:
        """Whether it has been found out what of the time before the start goes on."""
        return not self._is_early

    @property
    def now_s(self) -> float:
        """When the status was made that was taken in last (UTC)."""
        return self._now_s

    def take_cleared(self) -> list[Cleared]:
        """The alarms that went since this was asked last."""
        cleared, self._cleared = self._cleared, []
        return cleared

    def acknowledge(self, key: str) -> None:
        """Somebody has seen it. Raises KeyError where it is not in force."""
        entry = self._entries[key]
        entry.acknowledged = Acknowledged(
            at_s=self._now_s, since_s=entry.since_s, severity=entry.alarm.severity, extent=entry.alarm.extent
        )

    def shelve(self, key: str, for_s: float) -> None:
        """Put it away until an end. Raises KeyError where it is not in force."""
        severity = self._entries[key].alarm.severity
        self._shelves[key] = Shelf(until_s=self._now_s + for_s, severity=severity)

    def reactivate(self, key: str) -> None:
        """Undo an acknowledgement or a shelf. Raises KeyError where it is not in force."""
        self._entries[key].acknowledged = None
        self._shelves.pop(key, None)

    def memory(self) -> Memory:
        """What a board that takes over from this one needs."""
        acknowledged = {key: entry.acknowledged for key, entry in self._entries.items() if entry.acknowledged}
        return Memory(saved_s=self._now_s, acknowledged=self._returning | acknowledged, shelves=self._shelves)

    def _shift(self, by_s: float) -> None:
        """The daemon's clock was set: move what is remembered along, or it would be of the future, or end at once."""
        for entry in self._entries.values():
            entry.since_s, entry.seen_s = entry.since_s + by_s, entry.seen_s + by_s
            entry.acknowledged = entry.acknowledged and entry.acknowledged.moved(by_s)
        self._returning = {key: before.moved(by_s) for key, before in self._returning.items()}
        self._shelves = {key: shelf.moved(by_s) for key, shelf in self._shelves.items()}
        self._running_s = None if self._running_s is None else self._running_s + by_s

    def _begin(self, alarm: Alarm) -> _Entry:
        # What the daemon noted before its clock was set back is of the future.
        since_s = self._now_s if alarm.began_s is None else min(alarm.began_s, self._now_s)
        entry = self._entries[alarm.key] = _Entry(alarm=alarm, worst=alarm, since_s=since_s, seen_s=self._now_s)
        before = self._returning.pop(alarm.key, None)
        if before is not None and has_gone_on(alarm, before.since_s, self._now_s - self._before.saved_s):
            entry.since_s, entry.acknowledged = before.since_s, before
        return entry

    @property
    def _is_early(self) -> bool:
        """Whether what was wrong before the start may still have to be found out."""
        return self._running_s is None or self._now_s - self._running_s < RETURNS_WITHIN_S

    def _is_worse(self, alarm: Alarm, acknowledged: Acknowledged) -> bool:
        if alarm.severity < acknowledged.severity:
            return True
        is_returned = acknowledged is self._before.acknowledged.get(alarm.key)
        return alarm.extent >= WORSE * acknowledged.extent and not (self._is_early and is_returned)

    def _status(self, entry: _Entry) -> AlarmStatus:
        shelf = self._shelves.get(entry.alarm.key)
        return AlarmStatus(
            key=entry.alarm.key,
            severity=AlarmSeverity[entry.alarm.severity.name],
            text=entry.alarm.text,
            fix=entry.alarm.fix,
            since_ns=_ns(entry.since_s),
            acknowledged_ns=None if entry.acknowledged is None else _ns(entry.acknowledged.at_s),
            shelved_until_ns=None if shelf is None else _ns(shelf.until_s),
        )

    def _is_more_severe(self, key: str, shelf: Shelf) -> bool:
        return key in self._entries and self._entries[key].alarm.severity < shelf.severity


ORDER = (Attention.NEW, Attention.ACKNOWLEDGED, Attention.SHELVED)
HARM = list(AlarmCause)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)

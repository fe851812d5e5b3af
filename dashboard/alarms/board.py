"""The alarm board: since when an alarm is in force, and whether somebody acknowledged or shelved it."""

from dataclasses import dataclass
from typing import Any

from dashboard.alarms.alarm import Alarm
from dashboard.alarms.causes import alarms
from dashboard.alarms.memory import Acknowledged, Memory, Shelf
from schemas.api.status import Status

CLEAR_AFTER_S = 3.0
"""A cause has to be gone for so long before its alarm goes: one that flickers would train people to look away."""

WORSE = 2.0
"""An alarm that reaches so many times as far as when it was acknowledged is a new one."""

AWAY_MOST_S = 600.0
"""After a restart that took longer, an alarm whose beginning the status does not tell may be another one."""

SHELVED_MOST_MIN = 24 * 60
SHELVES_MIN = (15, 60, 480)
"""What the page offers, in minutes; 8 hours are a shift."""


@dataclass(kw_only=True)
class _Entry:
    alarm: Alarm
    since_s: float
    seen_s: float
    acknowledged: Acknowledged | None = None

    @property
    def has_lasted(self) -> bool:
        """Whether it has lasted long enough."""
        return self.seen_s - self.since_s >= self.alarm.after_s


class AlarmBoard:
    """Alarms with a memory.

    An acknowledgement holds until the alarm goes or becomes worse. A shelf holds until its end, also through an alarm
    that goes and comes again, or until it is more severe than when it was shelved.

    before: what a board remembered before a restart. An acknowledgement in it holds for the alarm that has gone on.
    """

    def __init__(self, before: Memory | None = None) -> None:
        self._before = before or Memory()
        self._entries: dict[str, _Entry] = {}
        self._returning = dict(self._before.acknowledged)  # whether these alarms have gone on is not known yet
        self._shelves = dict(self._before.shelves)
        self._first_s: float | None = None
        self._now_s = self._before.saved_s

    def update(self, status: Status) -> list[dict[str, Any]]:
        """Take in a snapshot; return the alarms in force, as `shown`."""
        now_s = status.time_ns / 1e9
        if now_s < self._now_s:
            self._shift(now_s - self._now_s)
        self._now_s = now_s
        self._first_s = now_s if self._first_s is None else self._first_s
        for alarm in alarms(status, frozenset(self._entries) | self._returning.keys()):
            entry = self._entries.get(alarm.key) or self._begin(alarm)
            entry.alarm, entry.seen_s = alarm, now_s
            if entry.acknowledged is not None and _is_worse(alarm, entry.acknowledged):
                entry.acknowledged = None
        gone = [key for key, entry in self._entries.items() if now_s - entry.seen_s >= CLEAR_AFTER_S]
        for key in gone:
            del self._entries[key]
        if now_s - self._first_s >= CLEAR_AFTER_S:
            self._returning.clear()
        for key, shelf in list(self._shelves.items()):
            # One that ends later than it may was put up while the clock was ahead.
            if not now_s < shelf.until_s <= now_s + SHELVED_MOST_MIN * 60 or self._is_more_severe(key, shelf):
                del self._shelves[key]
        return self.shown()

    def shown(self) -> list[dict[str, Any]]:
        """The alarms in force as plain dicts; new ones first, the most severe of them on top.

        `since_ms`: when it began. `attention`: new, acknowledged (`at_ms`) or shelved (`until_ms`).
        """
        found = [(self._attention(entry), entry) for entry in self._entries.values() if entry.has_lasted]
        found.sort(key=lambda pair: (ORDER[pair[0]["attention"]], pair[1].alarm.severity, pair[1].since_s))
        return [
            {
                "key": entry.alarm.key,
                "severity": entry.alarm.severity.name.lower(),
                "text": entry.alarm.text,
                "action": entry.alarm.fix,
                "since_ms": round(entry.since_s * 1e3),
            }
            | attention
            for attention, entry in found
        ]

    def acknowledge(self, key: str) -> None:
        """Somebody has seen it. Raises KeyError where it is not in force."""
        entry = self._entries[key]
        entry.acknowledged = Acknowledged(
            at_s=self._now_s, since_s=entry.since_s, severity=entry.alarm.severity, extent=entry.alarm.extent
        )

    def shelve(self, key: str, minutes: float) -> None:
        """Put it away until an end. Raises KeyError where it is not in force."""
        severity = self._entries[key].alarm.severity
        self._shelves[key] = Shelf(until_s=self._now_s + minutes * 60, severity=severity)

    def recall(self, key: str) -> None:
        """Undo an acknowledgement or a shelf. Raises KeyError where it is not in force."""
        self._entries[key].acknowledged = None
        self._shelves.pop(key, None)

    def memory(self) -> Memory:
        """What a board that takes over from this one needs."""
        acknowledged = {key: entry.acknowledged for key, entry in self._entries.items() if entry.acknowledged}
        return Memory(saved_s=self._now_s, acknowledged=self._returning | acknowledged, shelves=self._shelves)

    def _shift(self, by_s: float) -> None:
        """The daemon's clock was set back: move what is remembered along, or it would be of the future."""
        for entry in self._entries.values():
            entry.since_s, entry.seen_s = entry.since_s + by_s, entry.seen_s + by_s
            entry.acknowledged = entry.acknowledged and entry.acknowledged.moved(by_s)
        self._returning = {key: before.moved(by_s) for key, before in self._returning.items()}
        self._shelves = {key: shelf.moved(by_s) for key, shelf in self._shelves.items()}
        self._first_s = None if self._first_s is None else self._first_s + by_s

    def _begin(self, alarm: Alarm) -> _Entry:
        # What the daemon noted before its clock was set back is of the future.
        since_s = self._now_s if alarm.began_s is None else min(alarm.began_s, self._now_s)
        entry = self._entries[alarm.key] = _Entry(alarm=alarm, since_s=since_s, seen_s=self._now_s)
        before = self._returning.pop(alarm.key, None)
        if before is not None and self._has_gone_on(alarm, before):
            entry.since_s, entry.acknowledged = before.since_s, before
        return entry

    def _has_gone_on(self, alarm: Alarm, before: Acknowledged) -> bool:
        if alarm.began_s is None:
            return 0 <= self._now_s - self._before.saved_s <= AWAY_MOST_S
        return abs(alarm.began_s - before.since_s) < CLEAR_AFTER_S

    def _attention(self, entry: _Entry) -> dict[str, Any]:
        shelf = self._shelves.get(entry.alarm.key)
        if shelf is not None:
            return {"attention": "shelved", "until_ms": round(shelf.until_s * 1e3)}
        if entry.acknowledged is not None:
            return {"attention": "acknowledged", "at_ms": round(entry.acknowledged.at_s * 1e3)}
        return {"attention": "new"}

    def _is_more_severe(self, key: str, shelf: Shelf) -> bool:
        return key in self._entries and self._entries[key].alarm.severity < shelf.severity


ORDER = {"new": 0, "acknowledged": 1, "shelved": 2}


def _is_worse(alarm: Alarm, before: Acknowledged) -> bool:
    return alarm.severity < before.severity or alarm.extent >= WORSE * before.extent

"""The history of alarms: events when one is raised and when it is cleared, and how often one came that comes and goes.

What lasted less than `LASTED_S` is no event of its own: at each start a daemon waits for its database and its
instruments. Of an alarm that comes again within `EVERY_S` the repeats are counted, or they would take the place of all
others; one that lasts `LONG_S` is an event all the same. What was counted is written with the next event of the alarm,
when the time is over, or with the end of the daemon.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from daemon.alarms.alarm import Alarm, Severity
from daemon.alarms.board import Cleared, InForce
from daemon.alarms.limits import lasting
from daemon.alarms.marking import LASTED_S
from daemon.core.monitoring.events import Events
from schemas.states import Severity as EventSeverity

LONG_S = 60.0
EVERY_S = 600.0

SEVERITIES = {
    Severity.CRITICAL: EventSeverity.ERROR,
    Severity.WARNING: EventSeverity.WARNING,
    Severity.NOTE: EventSeverity.INFO,
}


@dataclass(kw_only=True)
class _Repeats:
    """An alarm that came and went without an event: how often, since when, for how long in all, and its last text."""

    since_s: float
    times: int = 0
    lasted_s: float = 0.0
    text: str = ""


class History:
    """Turns alarms into events. Times are those of the board, whose clock may be set."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._raised: set[str] = set()
        self._last_s: dict[str, float] = {}  # when each was raised last
        self._repeats: dict[str, _Repeats] = {}

    def look(self, in_force: Iterable[InForce], cleared: Iterable[Cleared], now_s: float) -> None:
        """Record what was raised and cleared since the last look, and what was counted for long enough."""
        for each in in_force:
            if each.alarm.key not in self._raised and self._is_due(each, now_s):
                self._raise(each.alarm, now_s)
        for gone in cleared:
            if gone.key in self._raised:
                self._raised.remove(gone.key)
                self._events.info(f"alarm cleared after {lasting(gone.lasted_s)}: {gone.text}")
            else:
                self._count(gone)
        for key, repeats in list(self._repeats.items()):
            if not 0 <= now_s - repeats.since_s < EVERY_S:
                self._tell(key, now_s)

    def end(self, now_s: float) -> None:
        """Record what was counted: nobody will count on."""
        for key in list(self._repeats):
            self._tell(key, now_s)

    def _is_due(self, each: InForce, now_s: float) -> bool:
        is_repeat = 0 <= now_s - self._last_s.get(each.alarm.key, -EVERY_S) < EVERY_S
        return each.lasted_s >= (LONG_S if is_repeat else LASTED_S)

    def _raise(self, alarm: Alarm, now_s: float) -> None:
        repeats = self._repeats.pop(alarm.key, None)
        before = f" (and {_times(repeats, now_s)} before)" if repeats else ""
        self._raised.add(alarm.key)
        self._last_s[alarm.key] = now_s
        self._events.record(SEVERITIES[alarm.severity], f"alarm raised: {alarm.text}{before}")

    def _count(self, gone: Cleared) -> None:
        repeats = self._repeats.setdefault(gone.key, _Repeats(since_s=gone.ended_s - gone.lasted_s))
        repeats.times += 1
        repeats.lasted_s += gone.lasted_s
        repeats.text = gone.text

    def _tell(self, key: str, now_s: float) -> None:
        repeats = self._repeats.pop(key)
        if repeats.times > 1 or repeats.lasted_s >= LASTED_S:
            self._events.info(f"alarm came {_times(repeats, now_s)}: {repeats.text}")


def _times(repeats: _Repeats, now_s: float) -> str:
    often = "once" if repeats.times == 1 else f"{repeats.times} times"
    in_all = f", for {lasting(repeats.lasted_s)} in all" if repeats.lasted_s >= 1.0 else ""
    return f"{often} in {lasting(max(0.0, now_s - repeats.since_s))}{in_all}"

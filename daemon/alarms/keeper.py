"""The daemon's alarms: made of its status while it runs, kept in its state folder, and changed by orders."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from daemon.alarms.alarm import Alarm, Severity
from daemon.alarms.board import AlarmBoard, Cleared, InForce, MemoryFile
from daemon.alarms.limits import lasting
from daemon.alarms.marking import LASTED_S, AlarmMarker, Marking
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.core.supervision.figures import Figures
from schemas.api.alarms import AlarmStatus
from schemas.api.status import Status
from schemas.marks import Mark
from schemas.states import Attention
from schemas.states import Severity as EventSeverity

# --- history ---------------------------------------------------------------------------------------------------------
# What lasted less than `LASTED_S` is no event of its own: at each start a daemon waits for its database and its
# instruments. Of an alarm that comes again within `EVERY_S` the repeats are counted, or they would take the place of
# all others; one that lasts `LONG_S` is an event all the same. What was counted is written with the next event of the
# alarm, when the time is over, or with the end of the daemon.

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


LOOK_EVERY_S = 1.0
MARK_AGAIN_S = 5.0
KEPT_EVERY_S = 30.0
"""What the board remembers changes with each look: of acknowledgements that ended, too, and up to when it looked."""


class NotInForce(Exception):
    """There is no such alarm now; the message names it."""


class AlarmKeeper:
    """The alarms in force, and what people did about them.

    An order holds when it returns, and is then in the state folder unless its disk does not take it, which is a
    warning: the daemon then shows the alarms in full after a restart.

    status: makes the status that is judged. marking: which alarms become marks. make_mark: makes one;
    False where it has to be tried again.
    """

    def __init__(
        self,
        state_dir: Path,
        outside: Outside,
        events: Events,
        status: Callable[[], Status],
        *,
        marking: Marking | None = None,
        make_mark: Callable[[Mark], Awaitable[bool]] | None = None,
        figures: Figures | None = None,
    ) -> None:
        self._figures = figures or Figures(events)
        self._file = MemoryFile(state_dir, outside, events)
        self._events = events
        self._status = status
        self._board = AlarmBoard()
        self._history = History(events)
        self._marking = marking or Marking()
        self._make_mark = make_mark
        self._marker = AlarmMarker(self._marking)
        self._to_mark = asyncio.Event()

    async def open(self) -> None:
        """Read what the daemon before kept."""
        before = await self._file.load()
        self._board, self._marker = AlarmBoard(before), AlarmMarker(self._marking, before)
        if self._marker.waiting:
            self._to_mark.set()

    def change(self, marking: Marking) -> None:
        """Let these alarms become marks from now on."""
        self._marking = marking
        self._marker.change(marking)

    @property
    def marks_waiting(self) -> int:
        """How many marks of alarms are still to be made."""
        return len(self._marker.waiting)

    async def run(self) -> None:
        """Look again and again until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._look_again_and_again())
                tasks.create_task(self._keep())
                if self._make_mark is not None:
                    tasks.create_task(self._mark(self._make_mark))
        finally:
            self._history.end(self._board.now_s)

    def look(self) -> None:
        """Judge the status as it is now. Alarms are events: who comes later learns that they were there."""
        self._board.update(self._status())
        cleared = self._board.take_cleared()
        if self._marker.look(self._board, cleared):
            self._to_mark.set()
        self._history.look(self._board.in_force(), cleared, self._board.now_s)

    def statuses(self) -> list[AlarmStatus]:
        """The alarms in force, as of the last look."""
        return self._board.shown()

    async def acknowledge(self, keys: Iterable[str] | None = None) -> None:
        """Somebody has seen these alarms; all that nobody dealt with where none are named.

        Raises:
            NotInForce: one of them is not; then none is acknowledged.
        """
        if keys is None:
            keys = [alarm.key for alarm in self.statuses() if alarm.attention is Attention.NEW]
        named = {key: self._in_force(key) for key in keys}
        for key, alarm in named.items():
            self._board.acknowledge(key)
            self._events.info(f"alarm acknowledged: {alarm.text}")
        await self._save()

    async def shelve(self, key: str, for_s: float) -> None:
        """Put an alarm away for a time, in s. Raises NotInForce."""
        alarm = self._in_force(key)
        self._board.shelve(key, for_s)
        self._events.info(f"alarm shelved for {lasting(for_s)}: {alarm.text}")
        await self._save()

    async def reactivate(self, key: str) -> None:
        """Undo an acknowledgement or a shelf. Raises NotInForce."""
        alarm = self._in_force(key)
        self._board.reactivate(key)
        self._events.info(f"alarm shown in full again: {alarm.text}")
        await self._save()

    def _in_force(self, key: str) -> AlarmStatus:
        for alarm in self.statuses():
            if alarm.key == key:
                return alarm
        raise NotInForce(f"the alarm {key!r} is not in force")

    async def _look_again_and_again(self) -> None:
        while True:
            self._figures.ask("alarms", self.look, None)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _mark(self, make: Callable[[Mark], Awaitable[bool]]) -> None:
        """Make the marks that alarms ask for: remembered first, so that a kill makes none twice, and loses none."""
        while True:
            await self._to_mark.wait()
            self._to_mark.clear()
            await self._save()
            for mark in list(self._marker.waiting.values()):
                if not await make(mark):
                    await asyncio.sleep(MARK_AGAIN_S)
                    self._to_mark.set()
                    break
                self._marker.placed(mark)
            await self._save()

    async def _save(self) -> None:
        await self._file.save(self._board.memory().model_copy(update=self._marker.memory()))

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(KEPT_EVERY_S)
            await self._save()

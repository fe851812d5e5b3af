"""The daemon's alarms: made of its status while it runs, kept in its state folder, and changed by orders."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from daemon.alarms.board import AlarmBoard
from daemon.alarms.history import History
from daemon.alarms.limits import lasting
from daemon.alarms.marking import AlarmMarker, Marking
from daemon.alarms.memory import MemoryFile
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.core.supervision.figures import Figures
from schemas.api.alarms import AlarmStatus
from schemas.api.status import Status
from schemas.marks import Mark
from schemas.states import Attention

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

"""The daemon's alarms: made of its status while it runs, kept in its state folder, and changed by orders."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from daemon.alarms.board import AlarmBoard
from daemon.alarms.limits import lasting
from daemon.alarms.memory import MemoryFile
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from schemas.api.alarms import AlarmStatus
from schemas.api.status import Status
from schemas.states import Attention

LOOK_EVERY_S = 1.0
KEPT_EVERY_S = 30.0
"""What the board remembers changes with each look: of acknowledgements that ended, too, and up to when it looked."""

LASTED_S = 10.0
"""What lasted less is no event: at each start a daemon waits for its database, and for its instruments."""

LONG_S = 60.0
CLEARED_EVERY_S = 600.0
"""Time between two events that the same alarm went, where it lasted less than `LONG_S`: one that comes and goes must
not take the place of all others."""

log = logging.getLogger(__name__)


class NotInForce(Exception):
    """There is no such alarm now; the message names it."""


class AlarmKeeper:
    """The alarms in force, and what people did about them.

    An order holds when it returns, and is then in the state folder unless its disk does not take it, which is a
    warning: the daemon then shows the alarms in full after a restart.

    status: makes the status that is judged.
    """

    def __init__(self, state_dir: Path, outside: Outside, events: Events, status: Callable[[], Status]) -> None:
        self._file = MemoryFile(state_dir, outside, events)
        self._events = events
        self._status = status
        self._board = AlarmBoard()
        self._defect = ""

    async def open(self) -> None:
        """Read what the daemon before kept."""
        self._board = AlarmBoard(await self._file.load())

    async def run(self) -> None:
        """Look again and again until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_again_and_again())
            tasks.create_task(self._keep())

    def look(self) -> None:
        """Judge the status as it is now. An alarm that went is an event: who comes later learns that it was there."""
        self._board.update(self._status())
        for alarm in self._board.take_cleared():
            if alarm.lasted_s < LASTED_S:
                continue
            text = f"alarm cleared after {lasting(alarm.lasted_s)}: {alarm.text}"
            every_s = CLEARED_EVERY_S if alarm.lasted_s < LONG_S else 0.0
            self._events.info_seldom(f"alarm {alarm.key}", text, every_s)

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
        await self._file.save(self._board.memory())

    async def shelve(self, key: str, for_s: float) -> None:
        """Put an alarm away for a time, in s. Raises NotInForce."""
        alarm = self._in_force(key)
        self._board.shelve(key, for_s)
        self._events.info(f"alarm shelved for {lasting(for_s)}: {alarm.text}")
        await self._file.save(self._board.memory())

    async def reactivate(self, key: str) -> None:
        """Undo an acknowledgement or a shelf. Raises NotInForce."""
        alarm = self._in_force(key)
        self._board.reactivate(key)
        self._events.info(f"alarm shown in full again: {alarm.text}")
        await self._file.save(self._board.memory())

    def _in_force(self, key: str) -> AlarmStatus:
        for alarm in self.statuses():
            if alarm.key == key:
                return alarm
        raise NotInForce(f"the alarm {key!r} is not in force")

    async def _look_again_and_again(self) -> None:
        while True:
            try:
                self.look()
                self._defect = ""
            except Exception as error:  # the readings are logged all the same
                self._note(f"{type(error).__name__}: {error}")
            await asyncio.sleep(LOOK_EVERY_S)

    def _note(self, defect: str) -> None:
        """Report once, from an except clause, that the status could not be judged: the alarms stay as they were."""
        if defect != self._defect:
            log.exception("the alarms cannot be made of the status")
            self._events.error(f"alarms are not up to date: {defect} (a defect of triggerlog, see the log)")
        self._defect = defect

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(KEPT_EVERY_S)
            await self._file.save(self._board.memory())

"""What the alarm board remembers over a restart of the daemon: one small file, which is replaced as a whole.

Without it alarms are shown in full again, which is the safe side: a file that is damaged, or a folder that cannot be
written, is one warning, and the daemon goes on.
"""

import asyncio
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from daemon.alarms.alarm import Severity
from daemon.core.monitoring.events import Events
from daemon.core.outcome import reason_of
from daemon.core.outside import Outside

FILE = "alarms.json"
LARGEST_BYTES = 2**20
WRITE_MOST_S = 5.0
"""A write that takes longer is not waited for."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class Acknowledged(_Model):
    """An alarm as it was when somebody acknowledged it, at at_s; since_s: when it began (s since 1970, UTC)."""

    at_s: float
    since_s: float
    severity: Severity
    extent: float

    def moved(self, by_s: float) -> "Acknowledged":
        """The same at another time."""
        return self.model_copy(update={"at_s": self.at_s + by_s, "since_s": self.since_s + by_s})


class Shelf(_Model):
    """Until when (s since 1970, UTC) an alarm is shelved, and how severe it was."""

    until_s: float
    severity: Severity

    def moved(self, by_s: float) -> "Shelf":
        """The same at another time."""
        return self.model_copy(update={"until_s": self.until_s + by_s})


class Memory(_Model):
    """Acknowledgements and shelves by the alarm's key, as at saved_s (s since 1970, UTC)."""

    version: Literal[1] = 1
    saved_s: float = 0.0
    acknowledged: dict[str, Acknowledged] = {}
    shelves: dict[str, Shelf] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not self.acknowledged and not self.shelves


class MemoryFile:
    """Where a board's memory is kept, in the state folder."""

    def __init__(self, state_dir: Path, outside: Outside, events: Events) -> None:
        self._path = state_dir / FILE
        self._disk = outside.disk
        self._workers = outside.workers
        self._events = events
        self._one_at_a_time = asyncio.Lock()
        self._at_disk: asyncio.Future[None] | None = None
        self._has_warned = False
        self._holds_some = True  # a damaged file is replaced

    async def load(self) -> Memory:
        """Read what was kept; nothing where there is no file, or none that can be used."""
        try:
            return Memory.model_validate_json(await self._workers.call(self._disk.read, self._path, 0, LARGEST_BYTES))
        except FileNotFoundError:
            self._holds_some = False
        except (OSError, ValidationError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else f"{error.error_count()} fields are wrong"
            self._events.warning(f"{self._path} cannot be used ({reason}): no alarm counts as acknowledged or shelved")
        return Memory()

    async def save(self, memory: Memory) -> None:
        """Keep it, so that it is durable when this returns; a disk that does not take it is one warning."""
        if memory.is_empty and not self._holds_some:
            return
        try:
            async with asyncio.timeout(WRITE_MOST_S), self._one_at_a_time:
                # A disk that hangs would take a thread a write, and could do the last one first.
                if self._at_disk is not None:
                    await asyncio.wait([self._at_disk])
                data = memory.model_dump_json().encode()
                self._at_disk = asyncio.ensure_future(self._workers.call(self._disk.replace, self._path, data))
                await asyncio.shield(self._at_disk)
        except OSError as error:  # a TimeoutError is one
            if not self._has_warned:
                reason = "its disk does not answer" if isinstance(error, TimeoutError) else reason_of(error)
                self._events.warning(
                    f"{self._path} cannot be written ({reason}): a restart forgets what is acknowledged and shelved"
                )
            self._has_warned = True
        else:
            self._has_warned, self._holds_some = False, not memory.is_empty

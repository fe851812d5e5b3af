"""What the alarm board remembers over a restart of the page: one small file, which is replaced as a whole.

Without it alarms are shown in full again, which is the safe side: a file that is damaged, or a folder that cannot be
written, is one warning in the log, and the page goes on.
"""

import asyncio
import logging
import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from dashboard.alarms.alarm import Severity

FILE = "alarms.json"
WRITE_MOST_S = 5.0
"""A write that takes longer is not waited for."""

log = logging.getLogger(__name__)


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
    """Where a board's memory is kept.

    folder: is made when it is first written to; None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._one_at_a_time = asyncio.Lock()
        self._at_disk: asyncio.Future[None] | None = None
        self._has_warned = False
        self._holds_some = False

    def load(self) -> Memory:
        """Read what was kept; nothing where there is no file, or none that can be used."""
        if self._path is None:
            return Memory()
        self._holds_some = True  # a damaged file is replaced
        try:
            return Memory.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            self._holds_some = False
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else f"{error.error_count()} fields are wrong"
            log.warning("%s cannot be used (%s): no alarm counts as acknowledged or shelved", self._path, reason)
        return Memory()

    async def save(self, memory: Memory) -> None:
        """Keep it, so that it is durable when this returns; a disk that does not take it is one warning."""
        if self._path is None or (memory.is_empty and not self._holds_some):
            return
        try:
            async with asyncio.timeout(WRITE_MOST_S), self._one_at_a_time:
                # A disk that hangs would take a thread a write, and could do the last one first.
                if self._at_disk is not None:
                    await asyncio.wait([self._at_disk])
                data = memory.model_dump_json().encode()
                self._at_disk = asyncio.ensure_future(asyncio.to_thread(_replace, self._path, data))
                await asyncio.shield(self._at_disk)
        except OSError as error:  # a TimeoutError is one
            if not self._has_warned:
                reason = error.strerror or "its disk does not answer"
                log.warning("%s cannot be written (%s): a restart of the page forgets alarms", self._path, reason)
            self._has_warned = True
        else:
            self._has_warned, self._holds_some = False, not memory.is_empty


def _replace(path: Path, data: bytes) -> None:
    """Make a file hold these bytes: at any moment it is as before, or as it shall be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")  # another page may have the same folder
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

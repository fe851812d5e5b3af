"""What is remembered over a restart: one small file of the state folder, which is replaced as a whole.

Without it the daemon goes on with nothing remembered: a file that is damaged, or a folder that cannot be written, is
one warning.
"""

import asyncio
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from daemon.core.monitoring.events import Events
from daemon.core.outcome import reason_of
from daemon.core.outside import Outside

LARGEST_BYTES = 2**26
WRITE_MOST_S = 5.0
"""A write that takes longer is not waited for."""


class Part(BaseModel):
    """A part of what is remembered."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class Remembered(Part):
    """All that one file remembers."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        raise NotImplementedError


M = TypeVar("M", bound=Remembered)


class KeptFile(Generic[M]):
    """Where it is kept.

    nothing: what is remembered without the file. unread, unwritten: what follows where the file cannot be used, and
    where it cannot be written, in words.
    """

    def __init__(
        self, path: Path, nothing: M, outside: Outside, events: Events, *, unread: str, unwritten: str
    ) -> None:
        self._path = path
        self._nothing = nothing
        self._disk = outside.disk
        self._workers = outside.workers
        self._events = events
        self._unread, self._unwritten = unread, unwritten
        self._one_at_a_time = asyncio.Lock()
        self._at_disk: asyncio.Future[None] | None = None
        self._has_warned = False
        self._holds_some = True  # a damaged file is replaced

    async def load(self) -> M:
        """Read what was kept; nothing where there is no file, or none that can be used."""
        try:
            data = await self._workers.call(self._disk.read, self._path, 0, LARGEST_BYTES)
            return type(self._nothing).model_validate_json(data)
        except FileNotFoundError:
            self._holds_some = False
        except (OSError, ValidationError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else f"{error.error_count()} fields are wrong"
            self._events.warning(f"{self._path} cannot be used ({reason}): {self._unread}")
        return self._nothing

    async def save(self, found: M) -> None:
        """Keep it, so that it is durable when this returns; a disk that does not take it is one warning."""
        if found.is_empty and not self._holds_some:
            return
        try:
            async with asyncio.timeout(WRITE_MOST_S), self._one_at_a_time:
                # A disk that hangs would take a thread a write, and could do the last one first.
                if self._at_disk is not None:
                    await asyncio.wait([self._at_disk])
                data = found.model_dump_json().encode()
                self._at_disk = asyncio.ensure_future(self._workers.call(self._disk.replace, self._path, data))
                await asyncio.shield(self._at_disk)
        except OSError as error:  # a TimeoutError is one
            if not self._has_warned:
                reason = "its disk does not answer" if isinstance(error, TimeoutError) else reason_of(error)
                self._events.warning(f"{self._path} cannot be written ({reason}): {self._unwritten}")
            self._has_warned = True
        else:
            self._has_warned, self._holds_some = False, not found.is_empty

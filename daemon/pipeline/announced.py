"""Restarts of the timing system that were announced, kept in the state folder until the announced run has begun.

One file holds them for all groups, so that an announcement is made for all of them or for none. It notes the place of
each: behind a record of the group's log, and behind a run. After a start an announcement is in force while
that run, or an older one where the database was put back, is the newest that recovery finds. So nothing has to be
removed at the moment when the announced run has begun.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from daemon.core.monitoring.events import Events
from daemon.core.outcome import reason_of
from daemon.core.outside import Outside
from daemon.core.supervision.fail_stop import fail_stop
from daemon.pipeline.pipeline import Pipeline

ANNOUNCED = "announced-runs.json"
LARGEST_BYTES = 2**26

MOST = 64
"""Announcements that are kept: those before the last ones have been followed long ago."""

NO_RECORD = 2**63
"""Above the number of any record of a log."""

AGAIN_S = 1.0

Number = Annotated[int, Field(ge=0, lt=NO_RECORD)]


class Receiving(Protocol):
    """The intake of a group."""

    @property
    def last_record(self) -> int:
        """The number of the last record of its log; 0 where there is none."""

    @property
    def pipeline(self) -> Pipeline | None:
        """The pipeline that has what comes; None before it has all that came before."""


class Place(BaseModel):
    """The place of an announcement in a group.

    after_record: the last record of the log before it. after_run: the newest run that had begun before it;
    None where the database had not answered yet.
    """

    model_config = ConfigDict(extra="forbid")

    after_record: Number
    after_run: Number | None


class Announcement(BaseModel):
    """A restart that was announced. epoch: 0 where nobody knows it."""

    model_config = ConfigDict(extra="forbid")

    epoch: Annotated[int, Field(ge=0, lt=2**32)]
    groups: dict[str, Place]


class AnnouncedFile(BaseModel):
    """The content of the file, the oldest announcement first."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    announcements: list[Announcement]


class AnnouncedRuns:
    """The announcements of all groups. Use `load` first."""

    def __init__(self, state_dir: Path, outside: Outside, events: Events) -> None:
        self._path = state_dir / ANNOUNCED
        self._disk, self._workers = outside.disk, outside.workers
        self._events = events
        self._kept: Sequence[Announcement] = ()
        self._pending: dict[str, deque[Announcement]] = {}  # by group, those that it has not followed
        self._announcing, self._writing = asyncio.Lock(), asyncio.Lock()

    async def load(self) -> None:
        """Read what earlier processes left."""
        try:
            data = await self._workers.call(self._disk.read, self._path, 0, LARGEST_BYTES)
            self._kept = AnnouncedFile.model_validate_json(data).announcements
        except FileNotFoundError:
            return
        except (OSError, ValidationError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else "it is damaged"
            self._events.error(
                f"{self._path} cannot be used ({reason}): where a restart of the timing system was announced, and its"
                " run has not begun, announce it again"
            )
        for announcement in self._kept:
            for group in announcement.groups:
                self._pending.setdefault(group, deque()).append(announcement)

    def last_record(self, group: str) -> int:
        """Return the last record of a group's log before any of its announcements."""
        return max((each.groups[group].after_record for each in self._kept if group in each.groups), default=0)

    @fail_stop(OSError)
    async def announce(self, epoch: int, intakes: Mapping[str, Receiving]) -> dict[str, int | None]:
        """Announce a restart to groups: when this returns, that is durable.

        Returns the new run by group; None where it begins later.

        Raises:
            OSError: the disk failed, and nothing is announced.
        """
        async with self._announcing:
            announcement = Announcement(epoch=epoch, groups={name: _place_in(each) for name, each in intakes.items()})
            await self._write(announcement)
            runs = dict[str, int | None]()
            for name, intake in intakes.items():
                self._pending.setdefault(name, deque()).append(announcement)
                runs[name] = None if intake.pipeline is None else await self.follow(name, intake.pipeline)
            return runs

    async def _write(self, *more: Announcement) -> None:
        async with self._writing:
            kept = [each for each in (*self._kept, *more) if each.groups][-MOST:]
            try:
                await self._replace(kept)
            except OSError:
                with suppress(OSError):  # it may have its place already, and is on the disk with the next sync
                    await self._replace(self._kept)
                raise
            self._kept = kept

    async def _replace(self, kept: Sequence[Announcement]) -> None:
        data = AnnouncedFile(announcements=list(kept)).model_dump_json().encode()
        await self._workers.call(self._disk.replace, self._path, data)

    # --- for the intakes, after a start -------------------------------------------------------------------------

    def begin(self, group: str, begun: int) -> None:
        """Leave out what a group has followed before. begun: its newest run, by all that was recovered."""
        pending = self._pending.get(group, ())
        self._pending[group] = deque[Announcement]()
        for announcement in pending:
            after_run = announcement.groups[group].after_run
            if after_run is None or begun <= after_run:
                self._pending[group].append(announcement)

    def begin_again(self, group: str) -> None:
        """Take all announcements of a group for ones that it has not followed; `begin` has to follow."""
        self._pending[group] = deque(each for each in self._kept if group in each.groups)

    def next_place(self, group: str) -> int:
        """Return the record of the log behind which a group has an announcement to follow, else NO_RECORD."""
        pending = self._pending.get(group)
        return pending[0].groups[group].after_record if pending else NO_RECORD

    async def follow(self, group: str, pipeline: Pipeline) -> int | None:
        """Announce the next pending restart to a pipeline; return the new run, None where it begins later.

        The run that it is behind is on the disk before: else the next start would follow it again. So a disk that does
        not take that is waited for.
        """
        announcement = self._pending[group][0]
        place, is_reported = announcement.groups[group], False
        while place.after_run != pipeline.begun:
            before, place.after_run = place.after_run, pipeline.begun
            try:
                await self._write()
            except OSError as error:
                place.after_run = before
                if not is_reported:
                    self._events.error(
                        f"group {group}: {self._path} cannot be written, so a restart that was announced waits, and"
                        f" all readings behind it: {reason_of(error)}; make room on the disk of the state folder, or"
                        " repair it"
                    )
                is_reported = True
                await asyncio.sleep(AGAIN_S)
        self._pending[group].popleft()
        ended = pipeline.ended(announcement.epoch)
        if ended is not None:
            self._events.warning(
                f"group {group}: epoch {announcement.epoch}, which was announced, is over: it was run {ended}; announce"
                " the epoch that the timing system has now"
            )
            return None
        return pipeline.announce_run(announcement.epoch)


def _place_in(intake: Receiving) -> Place:
    begun = None if intake.pipeline is None else intake.pipeline.begun
    return Place(after_record=intake.last_record, after_run=begun)

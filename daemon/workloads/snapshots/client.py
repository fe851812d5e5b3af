"""One client: in each cycle it connects, reads one snapshot, and waits for the rest of the cycle."""

import asyncio
import time
from collections.abc import Callable

from backends import open_folders_store
from backends.base import StoreError
from backends.folders.base import FoldersStore
from daemon.workloads.frame.messages import Message
from daemon.workloads.readers.pacing import FAILED_PAUSE_S, Pace
from daemon.workloads.snapshots.data import Data
from daemon.workloads.snapshots.messages import Asking, Done, Reading, Spec
from schemas.api.snapshots import Ask, Sample
from schemas.conditions.rules import ConditionsRefused
from schemas.folders.blocks import OPEN
from schemas.readings import Array

SAY_EVERY_S = 0.25
"""How far a client is with its snapshot is said so often at most."""
PATIENCE_CYCLES = 2.0
"""A question is given up after so many cycles, and not before `database.command_timeout_s`: a late answer is late, and
no failure."""


class NotWhole(Exception):
    """An answer has not the rows that there are; the message is one line."""


class Client:
    """Reads as many snapshots as there are cycles.

    Args:
        number: of the client, from 0.
        process: number of the process that it is in.
        begin_s: when the first client's first cycle is due, by CLOCK_MONOTONIC.
        say: takes its messages.
    """

    def __init__(
        self, spec: Spec, data: Data, number: int, *, process: int, begin_s: float, say: Callable[[Message], None]
    ) -> None:
        self._spec, self._data, self._number, self._process = spec, data, number, process
        self._settings = settings = spec.snapshots
        self._cycle_s = settings.cycle_data_s * settings.scale
        self._processing_s = settings.processing_s * settings.scale
        self._pace = Pace(begin_s + number * settings.chunk_s * settings.scale, self._cycle_s)
        self._say = say
        self._said_s = 0.0
        timeout_s = max(spec.database.command_timeout_s, min(3600.0, PATIENCE_CYCLES * self._cycle_s))
        self._database = spec.database.model_copy(update={"command_timeout_s": timeout_s})
        self._last: int | None = None
        """Time up to which it has all, where it asks for changes."""

    async def run(self) -> None:
        """Do all cycles."""
        for number in range(self._settings.cycles):
            await asyncio.sleep(max(0.0, self._pace.due_s - time.monotonic()))
            await self._cycle(number)

    async def _cycle(self, number: int) -> None:
        due_s = self._pace.due_s
        began_s = time.monotonic()
        self._say(Asking(client=self._number, due_s=due_s))
        connected_s, rows, size, problem = began_s, 0, 0, None
        store = self._open()
        try:
            await store.folder(self._data.paths[0])
            connected_s = time.monotonic()
            self._say_read(0)
            rows, size = await self._read(store, number)
        except (StoreError, ConditionsRefused, NotWhole) as error:
            problem = str(error)
        finally:
            await store.close()
        ended_s = time.monotonic()
        in_time = problem is None and ended_s + self._processing_s - due_s <= self._cycle_s
        self._say(
            Done(
                client=self._number,
                number=number,
                due_s=due_s,
                wait_s=began_s - due_s,
                connect_s=connected_s - began_s,
                query_s=ended_s - connected_s,
                rows=rows,
                bytes=size,
                in_time=in_time,
                process=self._process,
                cpu_s=time.process_time(),
                problem=problem,
            )
        )
        # A database that is away is not asked in a busy loop.
        self._pace.answered(ended_s + (self._processing_s if problem is None else FAILED_PAUSE_S))

    def _open(self) -> FoldersStore:
        """A store with one connection, which is opened by the first question."""
        spec = self._spec
        return open_folders_store(
            self._database,
            schema=spec.snapshots.schema_name,
            state_dir=spec.state_dir,
            password=spec.password,
            connections=1,
        )

    async def _read(self, store: FoldersStore, number: int) -> tuple[int, int]:
        """Ask for the snapshot of a cycle; return its rows and bytes."""
        last, at = self._last, self._time_of(number)
        rows = size = 0
        for folder, path in enumerate(self._data.paths):
            block, wanted = await self._ask(store, folder, last, at)
            if len(block) != wanted:
                raise NotWhole(f"{path}: the answer for {at} has {len(block):,} rows, and not {wanted:,}")
            rows += len(block)
            size += block.nbytes
            self._say_read(100 * (folder + 1) // self._data.folders)
        self._last = at if self._settings.ask is Ask.CHANGES else None
        return rows, size

    async def _ask(self, store: FoldersStore, folder: int, last: int | None, at: int) -> tuple[Array, int]:
        """One folder's part of an answer, and how many rows it has to have."""
        data, path = self._data, self._data.paths[folder]
        if self._settings.sample is Sample.CONTROL:
            return await store.history(path, 0, 0, OPEN), data.intervals
        if last is not None and last < at:
            return await store.changes(path, last, at), data.rows_begun(folder, last, at)
        return await store.snapshot(path, at), data.channels

    def _time_of(self, number: int) -> int:
        """Clients share the chunks; where they ask for changes, each goes through a stretch of its own."""
        clients, cycles = self._settings.clients, self._settings.cycles
        if self._settings.ask is Ask.CHANGES:
            return self._data.at(self._number * cycles + number)
        return self._data.at(number * clients + self._number)

    def _say_read(self, percent: int) -> None:
        now_s = time.monotonic()
        if percent == 0 or (now_s - self._said_s >= SAY_EVERY_S and percent < 100):
            self._said_s = now_s
            self._say(Reading(client=self._number, percent=percent))

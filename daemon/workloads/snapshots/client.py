"""Clients of snapshot readers: each connects in each cycle, reads one snapshot, and waits for the rest of it."""

import asyncio
import gc
import os
import select
import signal
import struct
import time
from collections.abc import Callable, Iterable
from functools import partial

import uvloop

from backends import open_folders_store
from backends.base import StoreError
from backends.folders.base import FoldersStore
from backends.kinds import KINDS
from daemon.core.process.children import end_with, forked
from daemon.workloads.frame.messages import Message
from daemon.workloads.readers.clients import FAILED_PAUSE_S, Pace
from daemon.workloads.snapshots.data import Data
from daemon.workloads.snapshots.messages import Asking, Died, Done, Reading, Spec, Started
from schemas.api.snapshots import MOST_PROCESSES, Ask, Sample, SnapshotSettings
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


# --- the processes of clients ----------------------------------------------------------------------------------------
# Each is forked from one that has imported everything, and never runs an event loop. All write to the same pipe, a
# message at a time: a line of less than PIPE_BUF bytes is written whole (pipe(7)).

LEAD_S = 0.1
"""From when all processes are there until the first cycle is due."""
BEGIN = struct.Struct("d")
LONGEST_PROBLEM = select.PIPE_BUF // 8
"""Characters of a problem: escaped, each may take six bytes."""


def processes_of(settings: SnapshotSettings) -> int:
    """How many processes the clients are in."""
    return min(settings.processes or MOST_PROCESSES, settings.clients)


def run_clients(orders: Iterable[bytes], messages: int) -> int:
    """Fork the processes, and wait until all have ended; return the exit code.

    orders: the first line is the Spec. messages: file descriptor that gets the messages.
    """
    line = next(iter(orders), None)
    if line is None:  # the parent is gone before it began
        return 0
    spec = Spec.read(line)
    end_with(spec.parent)
    data = Data(spec.snapshots)
    KINDS[spec.database.backend].implementation("folders")
    begin, told = os.pipe()
    # What there is by now is shared by all processes, as long as the garbage collector does not write to it.
    gc.collect()
    gc.freeze()
    processes = processes_of(spec.snapshots)
    children = [forked(partial(_run, spec, data, number, begin, messages)) for number in range(processes)]
    begin_s = time.monotonic() + LEAD_S
    os.write(told, BEGIN.pack(begin_s) * processes)
    _write(messages, Started(at_s=begin_s))
    return _wait(children, messages)


def _wait(children: list[int], messages: int) -> int:
    """Wait for all; end them where one ends early."""
    running = set(children)
    while running:
        pid, status = os.wait()
        running.discard(pid)
        code = os.waitstatus_to_exitcode(status)
        if code:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            _write(messages, Died(problem=f"process {children.index(pid)} of the clients {how}"))
            for other in running:
                os.kill(other, signal.SIGTERM)
            return 1
    return 0


def _run(spec: Spec, data: Data, number: int, begin: int, messages: int) -> None:
    (begin_s,) = BEGIN.unpack(os.read(begin, BEGIN.size))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(spec, data, number, begin_s, messages))


async def _work(spec: Spec, data: Data, number: int, begin_s: float, messages: int) -> None:
    """Be the clients of a process: every n-th one, so that those that read at the same time are in several."""
    settings = spec.snapshots
    async with asyncio.TaskGroup() as tasks:
        for client in range(number, settings.clients, processes_of(settings)):
            of = Client(
                spec, data, client, process=number, begin_s=begin_s, say=lambda message: _write(messages, message)
            )
            tasks.create_task(of.run(), name=f"client {client}")


def _write(messages: int, message: Message) -> None:
    if isinstance(message, Done) and message.problem is not None:
        message = message.model_copy(update={"problem": message.problem[:LONGEST_PROBLEM]})
    os.write(messages, message.line())

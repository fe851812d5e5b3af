"""The processes of clients, each forked from one that has imported everything, and never runs an event loop.

`python -m daemon.workloads.snapshots clients` reads its spec, forks, and waits for them to end. All write to the same
pipe, a message at a time: a line of less than PIPE_BUF bytes is written whole (pipe(7)).
"""

import asyncio
import gc
import os
import select
import signal
import struct
import time
from collections.abc import Iterable
from functools import partial

import uvloop

from backends.kinds import KINDS
from daemon.core.process.children import end_with, forked
from daemon.workloads.frame.messages import Message
from daemon.workloads.snapshots.client import Client
from daemon.workloads.snapshots.data import Data
from daemon.workloads.snapshots.messages import Died, Done, Spec, Started
from schemas.api.snapshots import MOST_PROCESSES, SnapshotSettings

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

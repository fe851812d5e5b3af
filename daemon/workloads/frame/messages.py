"""The protocol between a workload's process and the process that started it: JSON lines over its standard streams.

The first line to the child is its `ProcessSpec`. Each line after it, in either direction, is one `Message`:
`{"Visited": {...}}`. The parent answers each message with `Taken`, so that the child knows how far it was followed; it
sends `Stop` once. The end of its input tells the child that its parent is gone. Before it ends early the child sends
`Failed`. `run_process` is the main function of a child; the daemon's end is `runner.WorkloadProcess`.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import orjson
import uvloop
from pydantic import BaseModel, ConfigDict, Field

from daemon.core.monitoring.logs import LogLevel, start_logging
from daemon.core.process.children import end_with
from schemas.config import DatabaseConfig
from schemas.config.section import Section

LONGEST_LINE = 2**24
"""Bytes of a line, at most: names of 100,000 instruments take a few million; a visit of 1,024 tiles half a million."""


class ProcessSpec(Section):
    """What the process of a workload has to know. It goes over a pipe: other users may read a process's arguments."""

    parent: int = Field(description="process that it must not outlive")
    database: DatabaseConfig
    password: str | None = Field(default=None, repr=False)
    state_dir: Path = Field(description="where an embedded PostgreSQL runs")

    def line(self) -> bytes:
        """The spec as a line of the protocol."""
        return self.model_dump_json(by_alias=True).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Self:
        """Read the line of a spec."""
        return cls.model_validate_json(line)


class Message(BaseModel):
    """One message; its class names it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def line(self) -> bytes:
        """The message as a line of the protocol."""
        return b'{"%b":%b}\n' % (type(self).__name__.encode(), self.model_dump_json().encode())


class Taken(Message):
    """To the child: one more of its messages was dealt with."""


class Stop(Message):
    """To the child: end as soon as what is under way is whole."""


class Failed(Message):
    """To the parent: why the process ends early, in one line. It would fail again if it were started again."""

    problem: str


M = TypeVar("M", bound=Message)


def decoder(*kinds: type[Message]) -> Callable[[bytes], Any]:
    """Make the function that reads a line as a message of one of these kinds; it raises ValueError for another line."""
    by_name = {kind.__name__: kind for kind in kinds}

    def decode(line: bytes) -> Message:
        found = orjson.loads(line)
        if not isinstance(found, dict) or len(found) != 1 or not found.keys() <= by_name.keys():
            raise ValueError(f"{line[:60]!r} is no message of {', '.join(by_name)}")
        ((name, body),) = found.items()
        return by_name[name].model_validate(body)

    return decode


# --- the child's end -------------------------------------------------------------------------------------------------

S = TypeVar("S", bound=ProcessSpec)


class Refused(Exception):
    """The process cannot do its work and could not after another start; the message is one line."""


class Parent(Generic[M]):
    """The process that started this one: it takes messages and gives orders.

    stop: set when it sent `Stop`, or when it is gone.
    """

    def __init__(self, orders: asyncio.StreamReader, messages: asyncio.WriteTransport, *kinds: type[M]) -> None:
        self.stop = asyncio.Event()
        self.unacknowledged = 0
        self._lines = orders
        self._messages = messages
        self._decode = decoder(Taken, Stop, *kinds)
        self._orders: asyncio.Queue[M | None] = asyncio.Queue()
        self._acknowledged = asyncio.Event()

    def send(self, message: Message) -> None:
        """Send a message, without waiting for it to be taken."""
        self.unacknowledged += 1
        self._messages.write(message.line())

    async def until_acknowledged(self, most: int) -> None:
        """Wait until at most so many messages were sent and not taken; not once the parent is gone."""
        while self.unacknowledged > most and not self._lines.at_eof():
            self._acknowledged.clear()
            await self._acknowledged.wait()

    async def orders(self) -> AsyncIterator[M]:
        """The workload's own orders, until the process is to stop."""
        while (order := await self._orders.get()) is not None:
            yield order

    async def listen(self) -> None:
        """Take what the parent sends, until it is gone."""
        while line := await self._lines.readline():
            match self._decode(line):
                case Taken():
                    self.unacknowledged -= 1
                    self._acknowledged.set()
                case Stop():
                    self._stop()
                case order:
                    self._orders.put_nowait(order)
        self._stop()
        self._acknowledged.set()

    def _stop(self) -> None:
        self.stop.set()
        self._orders.put_nowait(None)


def run_process(spec: type[S], work: Callable[[S, Parent[M]], Awaitable[None]], *orders: type[M]) -> None:
    """Run a workload's process to its end: the exit code is 1, after a `Failed`, where `work` raises Refused.

    Args:
        spec: what the first line of the input is.
        work: returns when the work is done, or soon after `Parent.stop` is set.
        orders: kinds of messages that the workload takes.
    """
    with own_output() as messages, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(_run(spec, work, messages, *orders)))


@contextlib.contextmanager
def own_output() -> Iterator[int]:
    """Yield a file descriptor for messages: what a library prints goes to the log and not among them."""
    start_logging(LogLevel.INFO)
    messages = os.dup(1)
    os.dup2(2, 1)
    yield messages


async def _run(spec: type[S], work: Callable[[S, Parent[M]], Awaitable[None]], messages: int, *orders: type[M]) -> int:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(messages, "wb"))
    line = await lines.readline()
    if not line:  # the parent is gone before it began
        return 0
    found = spec.read(line)
    end_with(found.parent)
    parent = Parent(lines, transport, *orders)
    listening = asyncio.create_task(parent.listen())
    try:
        await work(found, parent)
    except Refused as error:
        parent.send(Failed(problem=str(error)))
        return 1
    else:
        return 0
    finally:
        await parent.until_acknowledged(0)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)

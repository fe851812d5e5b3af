"""The daemon's side of the wire protocol and nothing behind it: keeps what it is sent, acknowledges when told to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import numpy as np

from schemas.readings import Array, Channel, InstrumentGroup
from schemas.wire import Ack, Acknowledgement, Greeting, ProtocolError, answer_greeting, parse_greeting

BPM = InstrumentGroup(
    name="bpm",
    instruments=tuple(f"bpm_{i:03d}" for i in range(120)),
    channels=tuple(Channel(name=n, unit="mm", dtype="float64") for n in ("top_in", "bot_in", "bot_out", "top_out")),
)
TOROID = InstrumentGroup(
    name="toroid",
    instruments=("tor_1", "tor_2", "tor_3"),
    channels=(Channel(name="charge", unit="nC", dtype="float32"), Channel(name="gain", unit="", dtype="uint8")),
)


@dataclass(kw_only=True)
class Connected:
    """One connection that a listener has, or had."""

    greeting: Greeting
    record: np.dtype
    writer: asyncio.StreamWriter
    resume: int
    received: bytearray = field(default_factory=bytearray)
    done: int = 0

    @property
    def records(self) -> Array:
        """Whole records received, in order."""
        size = self.record.itemsize
        return np.frombuffer(bytes(self.received[: len(self.received) // size * size]), self.record)

    def acknowledge(self, done: int, refused: int = 0) -> None:
        """Acknowledge, if this sender wants it; done counts from the first record of the session."""
        self.done = done
        if self.greeting.ack is Ack.COMMITTED:
            self.writer.write(Acknowledgement(done=done, refused=refused).frame())

    def cut(self) -> None:
        """Break the connection the hard way."""
        self.writer.transport.abort()


class Listener:
    """Listens on a free port. With `acknowledges` everything received counts as committed at once.

    A session goes on with the first record that its sender still holds, unless `resume` says otherwise;
    `at_once` is sent in one piece with the answer.
    """

    def __init__(self, *groups: InstrumentGroup, acknowledges: bool = True) -> None:
        self.groups = {group.name: group for group in groups}
        self.acknowledges = acknowledges
        self.reading = asyncio.Event()
        self.reading.set()
        self.connections: list[Connected] = []
        self.refusal: ProtocolError | None = None
        self.refused = 0
        self.cut_after: int | None = None
        self.resume: int | None = None
        self.at_once: Acknowledgement | None = None
        self.port = 0
        self._arrived = asyncio.Condition()

    @property
    def records(self) -> Array:
        """Everything received over all connections."""
        return np.concatenate([connection.records for connection in self.connections])

    async def until(self, condition) -> None:
        """Wait until the condition holds; looked at whenever something arrives."""
        async with asyncio.timeout(60), self._arrived:
            await self._arrived.wait_for(condition)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError):
                await self._serve(reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        try:
            greeting = parse_greeting(line)
            if self.refusal:
                raise self.refusal
            answer = answer_greeting(greeting, self.groups)
        except ProtocolError as error:
            self.refused += 1
            writer.write(error.line())
            return
        resume = greeting.first if self.resume is None else self.resume
        if greeting.session is not None:
            answer = replace(answer, resume=resume)
        connection = Connected(greeting=greeting, record=answer.record, writer=writer, resume=resume)
        self.connections.append(connection)
        writer.write(answer.line() + (self.at_once.frame() if self.at_once else b""))
        while True:
            await self.reading.wait()
            data = await reader.read(1 << 20)
            connection.received += data
            whole = len(connection.received) // answer.record.itemsize
            if self.cut_after is not None and whole >= self.cut_after:
                self.cut_after = None
                connection.cut()
                return
            if self.acknowledges and data:
                connection.acknowledge(resume + whole)
            async with self._arrived:
                self._arrived.notify_all()
                if not data:
                    break
        # Half-closed: the daemon closes once everything is acknowledged.
        while greeting.ack is Ack.COMMITTED and connection.done < resume + whole:
            async with asyncio.timeout(60), self._arrived:
                await self._arrived.wait()

    async def acknowledged(self, connection: Connected, done: int, refused: int = 0) -> None:
        """Acknowledge, and let a half-closed connection see that it may close."""
        connection.acknowledge(done, refused)
        async with self._arrived:
            self._arrived.notify_all()


@asynccontextmanager
async def listening(*groups: InstrumentGroup, acknowledges: bool = True, port: int = 0) -> AsyncIterator[Listener]:
    """A listener on a free port, or on the port where one listened before."""
    listener = Listener(*groups, acknowledges=acknowledges)
    serving: set[asyncio.Task] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        with suppress(asyncio.CancelledError):  # a test that ends with connections open
            await listener.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=1 << 16)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()


async def eventually(condition: Callable[[], object], timeout_s: float = 60) -> None:
    """Wait for what only the sender knows."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - the code under test has no event for every test's question
            await asyncio.sleep(0.001)

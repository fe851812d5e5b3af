"""A sender: what a program with readings uses to hand them to a triggerlog daemon over TCP (wire protocol v1)."""

import asyncio
import os
import random
import re
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np

from daemon.client.sender.connection import Connection, ConnectionLost, SenderError, greet
from daemon.client.sender.stream import Stream
from daemon.web.rates import Backoff
from schemas.checking.addresses import host_and_port
from schemas.readings import Array
from schemas.wire import (
    SENDER_MAX,
    Ack,
    Answer,
    ErrorCode,
    Greeting,
    ProtocolError,
    newest_acknowledgement,
)

PASSING = frozenset({ErrorCode.TOO_MANY_CONNECTIONS, ErrorCode.TIMEOUT, ErrorCode.STOPPING, ErrorCode.CONFIGURATION})
"""Refusals that may be over when the sender tries again; all the others need somebody to fix something."""

RETRY_FIRST_S = 0.05
RETRY_MOST_S = 1.0
"""Pause between attempts to connect again; it doubles from the first to the most."""

_SYSTEM = random.SystemRandom()


class Sender:
    """One connection to a daemon for the readings of one group.

    Example::

        async with await Sender.connect("127.0.0.1", 8122, "bpm", sender="crate-07") as sender:
            block = np.zeros(sender.instruments, sender.record)
            block["instrument"] = np.arange(sender.instruments)
            for trigger in range(1, 1001):
                block["trigger"] = trigger
                block["epoch"] = ...  # how often the timing system was restarted; 0 is unknown
                block["time_ns"] = time.time_ns()
                block["top_in"] = ...
                await sender.send(block)
        # here every reading is committed, or the `async with` has raised

    `record` is the structured dtype of a block, `instruments` how many the group has, `instrument` the number of the
    instrument asked for (else None). With `reconnect` the sender opens a session: it keeps what is not acknowledged, at
    most about `buffer_mib`, connects again when the daemon goes away, and goes on where the daemon says.

    Not for several threads. Several tasks may send; blocks never mix.
    """

    def __init__(
        self,
        host: str,
        port: int,
        greeting: Greeting,
        *,
        reconnect: bool,
        buffer_mib: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._host, self._port, self._greeting = host, port, greeting
        self._tls = tls
        self._reconnects_itself = reconnect
        self._keep_bytes = int(buffer_mib * 2**20)
        self._answer = Answer(group=greeting.group, record=np.dtype([]), instruments=0)
        self._connection: Connection | None = None
        self._stream = Stream()
        self._waiting: list[asyncio.Future[None]] = []
        self._failure: Exception | None = None
        self._closing = False
        self._again: asyncio.Task[None] | None = None
        self._tell: Callable[[str], None] | None = None
        self.reconnects = 0
        self.sent_again = 0

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        group: str,
        *,
        sender: str | None = None,
        instrument: str | None = None,
        ack: Ack = Ack.COMMITTED,
        reconnect: bool = False,
        buffer_mib: float = 16.0,
        timeout_s: float = 5.0,
        on_problem: Callable[[str], None] | None = None,
        tls: ssl.SSLContext | None = None,
        rng: random.Random = _SYSTEM,
    ) -> Self:
        """Connect and greet.

        Args:
            host: the daemon's address.
            port: its port for readings over TCP.
            group: the instrument group whose readings are sent.
            sender: a free name for this sender, [A-Za-z0-9_.-], at most 64 characters; shown by the daemon. With
                `reconnect` it is made of the host's name and the process id unless it is given: a name that is the
                same each time the program starts lets the daemon forget the sessions of killed processes.
            instrument: name of the one instrument this sender serves; its number is in `instrument` afterwards.
            ack: what the daemon shall acknowledge: what is `COMMITTED` to the database; what is `RECEIVED`, on the
                disk in its journal, which goes on while the database is away; or `NONE`.
            reconnect: open a session, connect again when the connection is lost, and send again what the daemon lacks.
            buffer_mib: with `reconnect`, how much may wait for its acknowledgement before `send` waits, in MiB.
            timeout_s: time for connecting and greeting, in seconds.
            on_problem: told in one line whenever the connection is lost or found again.
            tls: for a source with a certificate: what to trust, and perhaps a certificate to show
                (`daemon.web.tls.client_context`); None is plain TCP.
            rng: where the number of the session comes from; by default the system's own randomness.

        Raises:
            SenderError: nobody answers there, or not in time, or one does not trust the other.
            ProtocolError: the daemon refuses, with its code and its sentence; or what answers is no daemon.
        """
        if reconnect and ack is Ack.NONE:
            raise ValueError("reconnect needs acknowledgements: without them nobody knows what to send again")
        greeting = Greeting(group=group, sender=sender, ack=ack, instrument=instrument)
        if reconnect:
            greeting = replace(greeting, sender=sender or _own_name(), session=rng.getrandbits(63), next=0)
        self = cls(host, port, greeting, reconnect=reconnect, buffer_mib=buffer_mib, tls=tls)
        self._tell = on_problem
        connection = await greet(self, host, port, greeting, timeout_s=timeout_s, tls=tls)
        self._answer = replace(connection.answer.result(), resume=None)
        self._take(connection)
        return self

    @property
    def record(self) -> np.dtype[Any]:
        """The dtype of a block, as the daemon laid it out."""
        return self._answer.record

    @property
    def instruments(self) -> int:
        """How many instruments the group has."""
        return self._answer.instruments

    @property
    def instrument(self) -> int | None:
        """Number of the instrument that was named on connecting; None without a name."""
        return self._answer.instrument

    @property
    def sent(self) -> int:
        """Readings handed over; those sent again after a reconnect count once."""
        return self._stream.sent

    @property
    def acknowledged(self) -> int:
        """Readings that are committed, or dealt with for good: the first so many of those sent."""
        return self._stream.done

    @property
    def refused(self) -> int:
        """Readings that the daemon refused for good; they are among the acknowledged.

        Those are missing that were acknowledged on a connection that broke before the acknowledgement was here, or
        settled while there was none.
        """
        return self._stream.refused

    async def send(self, block: Array) -> None:
        """Send a block of `record` dtype, shape (readings,); returns when the block may be written to again.

        Without `reconnect`, a call that is cancelled while it waits, as by a timeout, ends the connection: the block
        may be written to again then, too, and part of it is not sent.

        Raises:
            SenderError: the block has another dtype or shape.
            ConnectionLost: the daemon is gone.
        """
        self.put(block)
        if not self.free:
            try:
                await self.ready()
            except asyncio.CancelledError:
                self._let_go_of_blocks()
                raise

    def put(self, block: Array) -> None:
        """Send a block as far as it goes without waiting. Before the next one, and before writing to it, `ready()`.

        Raises:
            SenderError, ConnectionLost: as `send`.
        """
        if self._failure is not None:
            raise self._failure
        if block.ndim != 1 or (block.dtype is not self._answer.record and block.dtype != self._answer.record):
            raise SenderError(f"a block of {self._greeting.group} has 1 dimension and the dtype `record` of its sender")
        if not len(block):
            return
        data: bytes | memoryview
        if self._reconnects_itself:
            data = block.tobytes()
            is_next = self._stream.add(len(block), data)
        else:
            # What TLS cannot encrypt at once it keeps, and the caller may write to its block.
            data = block.tobytes() if self._tls is not None else np.ascontiguousarray(block).view(np.uint8).data
            is_next = self._stream.add(len(block))
        if is_next and self._connection is not None and not self._connection.is_lost:
            self._stream.written = self._stream.sent
            self._connection.transport.write(data)

    @property
    def free(self) -> bool:
        """Whether `send` would not wait now."""
        connection = self._connection
        return (
            connection is not None
            and not connection.paused
            and not connection.is_lost
            and self._stream.written == self._stream.sent
            and self._stream.kept.nbytes <= self._keep_bytes
        )

    async def ready(self) -> None:
        """Wait until the connection has taken everything handed over, and the buffer has room.

        Raises:
            ConnectionLost: the daemon is gone.
        """
        await self._until(lambda: self.free)

    async def drain_acknowledged(self, timeout_s: float | None = None) -> None:
        """Wait until everything sent is acknowledged, at most `timeout_s` seconds.

        Raises:
            SenderError: not all is acknowledged in time; the message says how much is not.
            ConnectionLost: the daemon is gone.
        """
        if self._greeting.ack is Ack.NONE:
            raise SenderError("this sender asked for no acknowledgements; connect with ack=Ack.COMMITTED")
        try:
            async with asyncio.timeout(timeout_s):
                await self._until(lambda: self.acknowledged == self.sent)
        except TimeoutError:
            left = self.sent - self.acknowledged
            raise SenderError(
                f"{left} of {self.sent} readings are not acknowledged after {timeout_s:g} s; "
                "the daemon's status says whether its database is away"
            ) from None

    async def finish(self, timeout_s: float | None = 60.0) -> None:
        """Wait for all acknowledgements, say goodbye, and close.

        Raises:
            SenderError: the daemon did not acknowledge or close within `timeout_s` seconds.
            ConnectionLost: the daemon is gone, and not everything was acknowledged.
        """
        try:
            if self._greeting.ack is not Ack.NONE:
                await self.drain_acknowledged(timeout_s)
            else:
                await self.ready()
            self._closing = True
            if self._connection is not None:
                await self._connection.end(timeout_s, goodbye=self._greeting.session is not None)
        finally:
            await self.close()

    async def close(self) -> None:
        """Close at once; what is not acknowledged stays so."""
        self._closing = True
        if self._again is not None:
            self._again.cancel()
            await asyncio.gather(self._again, return_exceptions=True)
        if self._connection is not None:
            connection = self._connection
            connection.transport.abort()
            await connection.closed
        self._failure = self._failure or ConnectionLost("this sender is closed; connect another one")
        self.resumed()

    async def __aenter__(self) -> Self:
        """Enter: it is connected already."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish; after an exception only close."""
        if kind is None:
            await self.finish()
        else:
            await self.close()

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
            if self._failure is not None:
                raise self._failure
            await self._woken()

    async def _woken(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def resumed(self) -> None:
        """Let everyone who waits for something look again."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def check(self, answer: Answer) -> None:
        """Check where a session goes on: with a record that this sender holds, or with the next one.

        Raises:
            ProtocolError: with another, or the answer does not say.
        """
        if self._greeting.session is not None:
            self._stream.check(answer.resume)

    def acknowledgements(self, frames: bytes) -> None:
        """Take what the connection received after its answer."""
        newest = newest_acknowledgement(frames)
        if newest is None:
            return
        try:
            self._stream.acknowledge(newest)
        except ProtocolError as error:
            self._fail(error)
        else:
            self.resumed()

    def lost(self, connection: Connection, error: Exception | None) -> None:
        """Connect again if that was asked for, else let everything fail from now on."""
        if connection is not self._connection:
            return  # it failed before its greeting was answered: `greet` tells of it
        self._connection = None
        self._stream.begin_connection()  # here: the next one may acknowledge with its answer
        if self._failure is None and not self._closing:
            text = f"lost the connection to {host_and_port(self._host, self._port)} ({error or 'closed by the daemon'})"
            if self._reconnects_itself:
                self._say(f"{text}; connecting again")
                self._again = asyncio.ensure_future(self._connect_again())
            else:
                left = self.sent - self.acknowledged
                self._failure = ConnectionLost(
                    f"{text}; {left} readings are not acknowledged: connect and send them again"
                )
        self.resumed()

    async def _connect_again(self) -> None:
        backoff, refusal = Backoff(RETRY_FIRST_S, RETRY_MOST_S), ""
        while True:
            try:
                greeting = replace(self._greeting, first=self.acknowledged, next=self.sent)
                connection = await greet(self, self._host, self._port, greeting, timeout_s=5.0, tls=self._tls)
                break
            except SenderError:
                pass
            except ProtocolError as error:
                if error.code not in PASSING:
                    self._fail(error)
                    return
                if str(error) != refusal:
                    refusal = str(error)
                    self._say(f"{host_and_port(self._host, self._port)} refuses: {refusal}; connecting again")
            await backoff.pause()
        answer = connection.answer.result()
        if replace(answer, resume=None) != self._answer:
            connection.transport.abort()
            self._fail(SenderError(f"the daemon now has another layout for {self._greeting.group}; connect anew"))
            return
        assert answer.resume is not None  # `check` has seen it
        self.reconnects += 1
        self._take(connection)
        self._say(f"connected again to {host_and_port(self._host, self._port)}")
        await self._go_on(connection, answer.resume)

    def _take(self, connection: Connection) -> None:
        self._connection = connection
        if connection.closed.done():  # lost again between its answer and now
            self.lost(connection, None)

    async def _go_on(self, connection: Connection, resume: int) -> None:
        """Send the records from `resume` on; those before it are settled, or in the daemon's hands."""
        stream = self._stream
        if self._connection is connection:
            self.sent_again += stream.go_back(resume)
        while self._connection is connection and self._failure is None and stream.written < stream.sent:
            connection.transport.write(stream.rest())
            while connection.paused:
                await self._woken()
        self.resumed()

    def _fail(self, error: Exception) -> None:
        self._failure = error
        if self._connection is not None:
            self._connection.transport.abort()
        self.resumed()

    def _let_go_of_blocks(self) -> None:
        """See that no transport sends from the memory of a caller who does not wait any more."""
        if not self._reconnects_itself and self._failure is None and not self.free:
            left = self.sent - self.acknowledged
            self._fail(
                ConnectionLost(
                    "a call of `send` was cancelled while it waited, which ended the connection;"
                    f" {left} readings are not acknowledged: connect and send them again"
                )
            )

    def _say(self, text: str) -> None:
        if self._tell is not None:
            self._tell(text)


def _own_name() -> str:
    pid = f"-{os.getpid()}"
    return re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[: SENDER_MAX - len(pid)] + pid

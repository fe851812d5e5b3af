"""One TCP connection of a sender: its greeting, the daemon's answer, and the acknowledgements that flow back."""

import asyncio
import os
import socket
import ssl
from typing import Protocol, cast

from daemon.web.keepalive import Watch
from schemas.checking.addresses import host_and_port
from schemas.wire import ACKNOWLEDGEMENT, ANSWER_MAX, GOODBYE, Answer, Greeting, ProtocolError, parse_answer


class SenderError(Exception):
    """Readings cannot be handed over; the message is one line that says why and what to do."""


class ConnectionLost(SenderError):
    """The daemon is gone and this sender does not connect again by itself, or no longer."""


class Owner(Protocol):
    """The owner of a connection, and the events that it receives."""

    def check(self, answer: Answer) -> None:
        """Check that the owner can go on with a connection that was answered so; raises ProtocolError."""

    def acknowledgements(self, frames: bytes) -> None:
        """Take whole acknowledgement frames; after the answer, in order."""

    def resumed(self) -> None:
        """Go on: everything written has gone to the kernel."""

    def lost(self, connection: "Connection", error: Exception | None) -> None:
        """Do without the connection: it is closed; by the other side when there is no error."""


class Connection(asyncio.Protocol):
    """Bytes of one connection: first the answer, then acknowledgement frames.

    answer: the daemon's, or its refusal as ProtocolError. closed: done when the connection is. paused: whether
    something written has not gone to the kernel yet.
    """

    transport: asyncio.WriteTransport
    _watch: Watch

    def __init__(self, owner: Owner) -> None:
        loop = asyncio.get_running_loop()
        self._owner = owner
        self._rest = b""
        self._is_plain = True
        self._is_silent = False
        self.paused = False
        self.answer: asyncio.Future[Answer] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()

    @property
    def is_lost(self) -> bool:
        """Whether writing failed; `lost` is called in the next iteration of the event loop."""
        return self.transport.is_closing()

    async def end(self, timeout_s: float | None, *, goodbye: bool) -> None:
        """End the sending side, and wait until the daemon has closed; raises SenderError when it does not in time.

        goodbye: the session is over, and the daemon may forget it.
        """
        if goodbye:
            self.transport.write(GOODBYE)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()  # TLS ends both ways at once
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self.closed)
        except TimeoutError:
            raise SenderError(f"the daemon did not close the connection within {timeout_s:g} s") from None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep nothing in the transport once it says "go on": a caller may write to its block again."""
        self.transport = cast("asyncio.WriteTransport", transport)
        # TLS is given copies; and with a limit of 0 its transports pause and never say "go on".
        self._is_plain = transport.get_extra_info("sslcontext") is None
        if self._is_plain:
            self.transport.set_write_buffer_limits(high=0)
        self._watch = Watch(transport, self._vanished)

    def _vanished(self) -> None:
        self._is_silent = True
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take the answer apart, then hand on whole acknowledgement frames."""
        data = self._rest + data
        if not self.answer.done():
            line, newline, data = data.partition(b"\n")
            if not newline and len(line) <= ANSWER_MAX:
                self._rest = line
                return
            try:
                self.answer.set_result(parse_answer(line))
            except ProtocolError as error:
                self.answer.set_exception(error)
                self.transport.close()
                return
        whole = len(data) - len(data) % ACKNOWLEDGEMENT.itemsize
        self._rest = data[whole:]
        if whole and not self.transport.is_closing():
            self._owner.acknowledgements(data[:whole])

    def pause_writing(self) -> None:
        """Note that the kernel's buffer is full."""
        self.paused = True

    def resume_writing(self) -> None:
        """Let the owner go on."""
        self.paused = False
        self._owner.resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the error to the waiter for the answer, and to the owner."""
        self.paused = False
        self._watch.stop()
        if self._is_silent:
            exc = TimeoutError("its host does not answer any more")
        if not self.answer.done():
            plain = "does it want TLS, or is this host not in its `allow`?"
            why = plain if self._is_plain else "does it trust this sender's certificate?"
            self.answer.set_exception(ConnectionResetError(f"it closed the connection without an answer ({why})"))
        self.closed.set_result(None)
        self._owner.lost(self, exc)


async def greet(
    owner: Owner, host: str, port: int, greeting: Greeting, *, timeout_s: float, tls: ssl.SSLContext | None
) -> Connection:
    """Connect, in TLS if there is a context for it, greet, and wait for an answer that accepts.

    Raises:
        SenderError: no daemon answers there, or not in time.
        ProtocolError: the daemon refuses, or what answers is no daemon.
    """
    line, at = greeting.line(), host_and_port(host, port)
    connection: Connection | None = None
    try:
        async with asyncio.timeout(timeout_s):
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(lambda: Connection(owner), host, port, ssl=tls)
            connection.transport.write(line)
            owner.check(await asyncio.shield(connection.answer))
    except TimeoutError:
        await _give_up(connection)
        raise SenderError(f"{at} did not answer within {timeout_s:g} s; is this the daemon's port?") from None
    except ssl.SSLError as error:
        await _give_up(connection)
        raise SenderError(f"no TLS with {at}: {_reason_of_tls(error)}") from None
    except OSError as error:
        await _give_up(connection)
        raise SenderError(f"cannot reach a daemon at {at}: {_reason(error)}; is it running?") from None
    except UnicodeError:  # of the encoding of host names
        await _give_up(connection)
        raise SenderError(f"{host!r} is neither an address nor a name; give the host of the daemon") from None
    except BaseException:
        await _give_up(connection)
        raise
    return connection


def _reason(error: OSError) -> str:
    # asyncio folds the address into its own text; the system's words are clearer.
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _reason_of_tls(error: ssl.SSLError) -> str:
    reason = (error.reason or str(error)).lower().replace("_", " ")
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); give the authority that signed it"
    return f"{reason}; is this the daemon's port, and does its source have tls_certificate?"


async def _give_up(connection: Connection | None) -> None:
    if connection is None:
        return
    connection.answer.cancel()
    connection.transport.abort()
    await connection.closed

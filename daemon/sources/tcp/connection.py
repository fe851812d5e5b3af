"""One TCP sender: greeting, then records, acknowledgements the other way."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

from daemon.core.supervision.fail_stop import fail_stop
from daemon.pipeline.gather import NOBODY, READ_MOST, Gather
from daemon.sources.parsing import parsed
from daemon.web.keepalive import Watch
from schemas.readings import InstrumentGroup
from schemas.wire import (
    GOODBYE,
    GREETING_MAX,
    Ack,
    Acknowledgement,
    ErrorCode,
    Greeting,
    ProtocolError,
    answer_greeting,
    parse_greeting,
)

if TYPE_CHECKING:
    from daemon.pipeline.intake import Intake

WRITE_MOST = 64 * 2**10
"""Bytes of acknowledgements that may wait for a sender that does not read them; the next one says it all anyway."""


FAST = READ_MOST // 2
"""Bytes that come at once from a sender which has more of them, most likely."""


class Listener(Protocol):
    """What a connection needs of the source that accepted it."""

    @property
    def intakes(self) -> "Mapping[str, Intake]":
        """By group."""

    @property
    def groups(self) -> Mapping[str, InstrumentGroup]:
        """By name."""

    @property
    def gathers(self) -> Mapping[str, Gather]:
        """By group."""

    @property
    def handshake_timeout_s(self) -> float:
        """Time a sender has for its greeting."""

    def admit(self, connection: "Connection", greeting: Greeting) -> None:
        """Let a connection that has greeted so stay and `join`, or raise ProtocolError."""

    def joined(self, connection: "Connection") -> None:
        """The connection belongs to a group, and may have a column of its receipts; it is answered."""

    def release(self, connection: "Connection") -> None:
        """Hand on what came from the connection, and take back its column."""

    def left(self, connection: "Connection") -> None:
        """The connection is gone."""

    def ended(self, connection: "Connection") -> None:
        """The connection sends nothing more, and waits for its last acknowledgement."""

    def refuse(self, reason: str, address: str) -> None:
        """Count something that was turned away, and where it came from."""


class Connection(asyncio.BufferedProtocol):
    """Speaks `docs/protocol.md` with one sender.

    opening: what sets up the transport, which takes a while with TLS. session: `schemas.sessions.session_key`, None
    without one. next_record: number of the next record, from 0 in the session; on a connection without one from where
    the intake's begin.
    is_ended: the sender sends nothing more. is_goodbye: it said that its session is over, and everything was
    acknowledged to it before.
    """

    def __init__(self, listener: Listener, address: str) -> None:
        self.address = address
        self.was_made = False
        self._is_lost = False
        self.opening: asyncio.Task[None] | None = None
        self.group: str | None = None
        self.column = NOBODY
        self.session: int | None = None
        self.next_record = 0
        self.is_ended = False
        self.is_goodbye = False
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._watch: Watch | None = None
        self._greeting = bytearray(GREETING_MAX)
        self._greeted = 0
        self._gather: Gather | None = None
        self._carried = b""
        self._begin = 0  # the number here of the record that its sender counts as 0
        self._first = 0  # of the session's records, the first that its sender still holds
        self._refused_before = 0  # of the column, when the connection began
        self._acknowledged = (0, 0)
        self._is_tls = False
        self._is_held = False
        self._is_giving_way = False
        seconds = listener.handshake_timeout_s
        loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = loop.call_later(seconds, self._timed_out)

    # --- asyncio's side -----------------------------------------------------------------------------------------

    @fail_stop()
    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102
        self.was_made = True
        self._transport = cast("asyncio.Transport", transport)
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        self._watch = Watch(transport, self.abort)

    @fail_stop()
    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: D102
        if self._gather is None:
            return memoryview(self._greeting)[self._greeted :]
        return self._gather.space(self._carried)

    @fail_stop()
    def buffer_updated(self, nbytes: int) -> None:  # noqa: D102
        if self._gather is None:
            self._greeted += nbytes
            self._read_greeting()
            return
        self._take(len(self._carried) + nbytes)

    @fail_stop()
    def eof_received(self) -> bool:  # noqa: D102
        self.is_ended = True
        says_goodbye = bytes(self._carried) == GOODBYE
        self.is_goodbye = says_goodbye and self._acknowledged[0] == self.next_record
        if self._carried and not says_goodbye:
            self._listener.refuse("partial_record", self.address)
            self._carried = b""
        if self.column == NOBODY or self._is_tls:  # TLS ends both ways at once
            return False
        # A sender that has sent all its readings may still wait for its acknowledgements.
        self._listener.ended(self)
        return True

    @fail_stop()
    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        if self._is_lost:  # asyncio's own loop says so, too, where an opening was cancelled
            return
        self._is_lost = True
        self._stop_timer()
        if self._watch is not None:
            self._watch.stop()
        self._transport = None
        self._listener.left(self)

    # --- the source's side --------------------------------------------------------------------------------------

    def join(self, session: int | None, *, first: int, resume: int, refused: int) -> None:
        """Go on with a session, or begin without one.

        first: the first record that its sender still holds, so that it takes those before as acknowledged. resume: the
        first record that comes. refused: what its column counts until now.
        """
        self.session = session
        self._begin = resume if session is None else 0
        self.next_record = resume
        self._first, self._refused_before = first, refused
        self._acknowledged = (first, 0)

    def fence(self) -> None:
        """Go, for a newer connection of the session: what is not received goes over that one."""
        self._carried = b""
        self._listener.release(self)
        self.abort()

    def pause(self, *, paused: bool) -> None:
        """Stop or go on reading; what the kernel cannot take then makes the sender wait."""
        self._is_held = paused
        self._read_or_not()

    def stop(self) -> None:
        """Read nothing more; a sender that has not greeted yet is asked to connect again."""
        if self._gather is None:
            self._refuse(ProtocolError(ErrorCode.STOPPING, "the daemon is stopping; connect again in a while"))
        else:
            self.pause(paused=True)

    def acknowledge(self, done: int, refused: int) -> bool:
        """Send the sender its acknowledgement, if it is new; return whether nothing is left to be sent for now.

        Both count as `Intake.acknowledged` does.
        """
        # What is settled by what came before the daemon's start is not acknowledged before it is sent again.
        is_ahead = done > self.next_record
        done, refused = (
            max(min(done, self.next_record), self._first, self._acknowledged[0]),
            refused - self._refused_before,
        )
        if self._transport is None or self._transport.is_closing():
            return True
        if (done, refused) != self._acknowledged:
            if self._transport.get_write_buffer_size() > WRITE_MOST:
                return False
            self._transport.write(Acknowledgement(done=done - self._begin, refused=refused).frame())
            self._acknowledged = (done, refused)
        if not self.is_ended:
            return not is_ahead
        if done < self.next_record:
            return False
        self._transport.close()
        return True

    def close(self) -> None:
        """Close after what was written has gone out."""
        if self._transport is not None:
            self._transport.close()
        else:
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def make_room(self) -> None:
        """Go, for connections that came later: this one has not greeted, or is not closed after it was refused."""
        self._refuse(
            ProtocolError(ErrorCode.TIMEOUT, "others have come since, and there was no greeting; send it first")
        )
        self.abort()

    # --- greeting and records -----------------------------------------------------------------------------------

    def _read_greeting(self) -> None:
        try:
            end = _end_of_line(self._greeting, self._greeted)
            if end is None:
                return
            greeting = parsed(parse_greeting, bytes(self._greeting[:end]), ErrorCode.BAD_GREETING)
            answer = answer_greeting(greeting, self._listener.groups)
            _check_intake(greeting, self._listener.intakes[greeting.group])
            self._listener.admit(self, greeting)
        except ProtocolError as error:
            self._refuse(error)
            return
        self._stop_timer()
        self.group = greeting.group
        self._gather = self._listener.gathers[greeting.group]
        assert self._transport is not None
        self._transport.write(replace(answer, resume=None if self.session is None else self.next_record).line())
        self._listener.joined(self)
        early = bytes(self._greeting[end : self._greeted])
        self._greeting = bytearray()
        if early:
            self._gather.space(early)
            self._take(len(early))

    def _take(self, nbytes: int) -> None:
        assert self._gather is not None
        readings, self._carried = self._gather.take(nbytes, self.column, self.next_record)
        self.next_record += readings
        if nbytes >= FAST and self._gather.has_enough(nbytes):
            self._give_way()

    def _give_way(self) -> None:
        """Let the others have their turns: uvloop reads up to 32 times in a row while there is more.

        Not before a whole buffer has gathered in this turn of the loop: large blocks are what makes a fast sender fast.
        """
        if not self._is_giving_way:
            self._is_giving_way = True
            self._read_or_not()
            asyncio.get_running_loop().call_soon(self._go_on)

    @fail_stop()
    def _go_on(self) -> None:
        self._is_giving_way = False
        self._read_or_not()

    def _read_or_not(self) -> None:
        if self._transport is None or self.is_ended or self._transport.is_closing():
            return
        if self._is_held or self._is_giving_way:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _refuse(self, error: ProtocolError) -> None:
        self._stop_timer()
        if self._transport is None:
            self._listener.refuse(error.code, self.address)
            self.abort()
        elif not self._transport.is_closing():
            self._listener.refuse(error.code, self.address)
            self._transport.write(error.line())
            self._transport.close()

    @fail_stop()
    def _timed_out(self) -> None:
        seconds = self._listener.handshake_timeout_s
        self._refuse(ProtocolError(ErrorCode.TIMEOUT, f"no greeting within {seconds:g} s; send it first"))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _check_intake(greeting: Greeting, intake: "Intake") -> None:
    if intake.refused is not None:
        raise ProtocolError(ErrorCode.CONFIGURATION, intake.refused)
    if greeting.ack in (Ack.SPOOLED, Ack.RECEIVED) and not intake.has_log:
        raise ProtocolError(
            ErrorCode.BAD_GREETING, f"ack={greeting.ack}, and this daemon keeps no journal; use ack=committed"
        )


def _end_of_line(greeting: bytearray, received: int) -> int | None:
    end = greeting.find(b"\n", 0, received)
    if end >= 0:
        return end + 1
    if received >= GREETING_MAX:
        raise ProtocolError(
            ErrorCode.BAD_GREETING,
            f"no end of line in the first {GREETING_MAX} bytes; begin with TRIGGERLOG/1 group=<name>",
        )
    return None

"""The network between senders and the daemon: connections with delays, cuts, half-open ends and backpressure.

A connection is two `End`s; what is written at one travels in order, in pieces, and arrives later at the other. Both
are asyncio transports. Each end calls its protocol in the context in which it was made, so that nothing of a dead
daemon is called any more.
"""

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.loop import LIFE, VirtualLoop

WINDOW = 64 * 2**10
"""Bytes that are under way, or wait at the other end unread; more waits at the writer."""

ADDRESS: contextvars.ContextVar[str] = contextvars.ContextVar("address", default="10.0.0.1")
"""From where what runs in this context connects."""

EOF = b""


@dataclass
class Conditions:
    """The network as one address finds it: delays in s, and whether nothing gets through at all."""

    delay_s: float = 0.0002
    jitter_s: float = 0.0005
    is_cut: bool = False


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: "Network", protocol: asyncio.BaseProtocol, rng: random.Random, address: str) -> None:
        super().__init__()
        self.other: End | None = None
        self.address = address
        self._network, self._protocol, self._rng = network, protocol, rng
        self._loop = network.loop
        self._context = contextvars.copy_context()
        self._life = LIFE.get()
        self._outgoing = bytearray()
        self._high, self._low = 64 * 2**10, 16 * 2**10
        self._is_paused = False  # the protocol was asked to pause writing
        self._is_reading = True
        self._closing = self._closed = self._eof_wanted = self._eof_sent = False
        self._inbox: deque[bytes] = deque()
        self._under_way = 0
        self._last_ns = 0
        self.is_silent = False  # cut: nothing that is under way arrives
        self.cut_after: int | None = None  # so many bytes still arrive here
        self.notices_s = (0.0, 0.0)  # after a cut: when this end learns of it, and when the other
        self.received = 0

    # --- asyncio's side -----------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing or self._closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 2**10 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self._outgoing)

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: Any) -> None:
        if self._is_gone or self._closing or self._eof_wanted:
            return
        self._outgoing += bytes(data)
        self._flush()
        if len(self._outgoing) > self._high and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def write_eof(self) -> None:
        if not self._eof_wanted:
            self._eof_wanted = True
            self._flush()

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._soon(self._hand_over)

    def is_reading(self) -> bool:
        return self._is_reading and not self.is_closing()

    def close(self) -> None:
        """Write what waits, then close; nothing is read any more."""
        if not self.is_closing():
            self._closing = True
            self._inbox.clear()
            self._flush()

    def abort(self) -> None:
        """Close at once; the other end is reset."""
        if not self._closed and not self._is_gone:
            self._outgoing.clear()
            self._reset_other()
            self._end(None)

    # --- the network's side -------------------------------------------------------------------------------------

    @property
    def _is_gone(self) -> bool:
        return self._closed or (self._life is not None and self._life.is_dead)

    def _soon(self, callback: Callable[..., None], *args: Any) -> None:
        self._loop.call_soon(callback, *args, context=self._context)

    def _flush(self) -> None:
        """Let as much go as the other end has room for."""
        if self._closed:
            return
        if self._outgoing and self._under_way < WINDOW:
            piece = bytes(self._outgoing[: WINDOW - self._under_way])
            del self._outgoing[: len(piece)]
            self._under_way += len(piece)
            self._send(piece)
        if self._is_paused and len(self._outgoing) <= self._low:
            self._is_paused = False
            self._soon(self._resume_writing)
        if not self._outgoing and (self._eof_wanted or self._closing):
            if not self._eof_sent:
                self._eof_sent = True
                self._send(EOF)
            if self._closing:
                self._end(None)

    def _resume_writing(self) -> None:
        if not self._closed:
            self._protocol.resume_writing()

    def _send(self, piece: bytes) -> None:
        conditions = self._network.conditions(self.address)
        if self.is_silent or conditions.is_cut or self.other is None:
            return
        delay_s = conditions.delay_s + conditions.jitter_s * self._rng.random()
        arrives_ns = max(self._last_ns, self._loop.now_ns + int(delay_s * 1e9))
        self._last_ns = arrives_ns
        other = self.other
        self._loop.call_at(arrives_ns / 1e9, other._arrive, piece, context=other._context)

    def _arrive(self, piece: bytes) -> None:
        if self.is_silent:
            return
        if self._closed or self._closing:
            if piece and self._closed:
                self._reset_other()  # nobody reads this any more
            return
        if self.cut_after is not None:
            if len(piece) >= self.cut_after:
                rest, self.cut_after = piece[: self.cut_after], None
                if rest:
                    self._inbox.append(rest)
                    self._hand_over()
                self._network.cut(self, "cut", *self.notices_s)
                return
            self.cut_after -= len(piece)
        self._inbox.append(piece)
        self._hand_over()

    def _hand_over(self) -> None:
        while self._inbox and self._is_reading and not self.is_closing():
            piece = self._inbox.popleft()
            if piece == EOF:
                self._soon(self._eof)
                return
            if len(piece) > 1 and self._rng.random() < 0.3:
                at = self._rng.randrange(1, len(piece))
                self._inbox.appendleft(piece[at:])
                piece = piece[:at]
            taken = self._give(piece)
            self.received += taken
            if taken < len(piece):
                self._inbox.appendleft(piece[taken:])
            other = self.other
            if other is not None:
                other._under_way -= taken
                other._soon(other._flush)

    def _give(self, piece: bytes) -> int:
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            space = memoryview(self._protocol.get_buffer(-1))
            taken = min(len(space), len(piece))
            space[:taken] = piece[:taken]
            self._protocol.buffer_updated(taken)
            return taken
        self._protocol.data_received(piece)
        return len(piece)

    def _eof(self) -> None:
        if not self.is_closing() and not self._protocol.eof_received():
            self.close()

    def _reset_other(self) -> None:
        other = self.other
        if other is not None and not self.is_silent and not self._network.conditions(self.address).is_cut:
            delay_s = self._network.conditions(self.address).delay_s
            at = max(self._last_ns / 1e9, self._loop.time() + delay_s)
            self._loop.call_at(at, other.lose, ConnectionResetError("reset"), context=other._context)

    def lose(self, error: Exception | None) -> None:
        """Learn that the connection is gone."""
        if not self._closed:
            self._outgoing.clear()
            self._end(error)

    def _end(self, error: Exception | None) -> None:
        self._closed = self._closing = True
        self._inbox.clear()
        self._network.ended(self)
        self._soon(self._protocol.connection_lost, error)

    def start(self) -> None:
        """Introduce the transport to its protocol; in this end's context."""
        self._context.run(self._protocol.connection_made, self)


@dataclass
class Listener:
    """Where a daemon listens. accept: makes the protocol of a connection from an address; None refuses it."""

    accept: Callable[[str], asyncio.BaseProtocol | None]
    context: contextvars.Context


class Network:
    """All connections. rng_of: the stream of random numbers of an address's so manieth connection."""

    def __init__(self, loop: VirtualLoop, rng_of: Callable[[str, int], random.Random]) -> None:
        self.loop = loop
        self._rng_of = rng_of
        self._listeners: dict[int, Listener] = {}
        self._conditions: dict[str, Conditions] = {}
        self._made: dict[str, int] = {}
        self.ends: list[End] = []  # those of the daemon's side that are open
        self._newest: dict[str, End] = {}
        loop.connect = self.connect

    def conditions(self, address: str) -> Conditions:
        """As this address finds the network now."""
        return self._conditions.setdefault(address, Conditions())

    def listen(self, port: int, accept: Callable[[str], asyncio.BaseProtocol | None]) -> Callable[[], None]:
        """Take connections in the present context; returns what ends that."""
        listener = self._listeners[port] = Listener(accept, contextvars.copy_context())

        def close() -> None:
            if self._listeners.get(port) is listener:
                del self._listeners[port]

        life = LIFE.get()
        if life is not None:
            life.on_death(close)
        return close

    async def connect(self, factory: Callable[[], asyncio.BaseProtocol], port: int) -> tuple[End, Any]:
        """Connect from the present context's address.

        Raises:
            ConnectionRefusedError: nobody listens.
        """
        address = ADDRESS.get()
        number = self._made[address] = self._made.get(address, 0) + 1
        rng = self._rng_of(address, number)
        conditions = self.conditions(address)
        await asyncio.sleep(2 * conditions.delay_s + conditions.jitter_s * rng.random())
        while conditions.is_cut:  # noqa: ASYNC110
            await asyncio.sleep(0.5)  # the system sends its request again, until the caller gives up
        listener = self._listeners.get(port)
        if listener is None:
            raise ConnectionRefusedError("nobody listens")
        server_protocol = listener.context.run(listener.accept, address)
        if server_protocol is None:
            raise ConnectionResetError("refused")
        client = End(self, factory(), rng, address)
        server = listener.context.copy().run(End, self, server_protocol, random.Random(rng.random()), address)
        client.other, server.other = server, client
        self.ends.append(server)
        self._newest[address] = server
        self.loop.call_soon(server.start)
        client.start()
        return client, client.get_protocol()

    def ended(self, end: End) -> None:
        """Forget a connection whose end at the daemon is closed."""
        if end in self.ends:
            self.ends.remove(end)

    def life_of_newest(self, address: str) -> Any:
        """The life of the daemon that took the newest connection from an address, open or not."""
        return self._newest[address]._life

    def of(self, address: str) -> list[End]:
        """The daemon's ends of the open connections from an address."""
        return [end for end in self.ends if end.address == address]

    def cut(self, end: End, how: str, notice_s: float = 0.0, other_s: float = 0.0) -> None:
        """Cut a connection: nothing arrives any more, and each end learns of it after its time."""
        other = end.other
        assert other is not None
        end.is_silent = other.is_silent = True
        error = ConnectionResetError(how)
        self.loop.call_at(self.loop.time() + notice_s, end.lose, error, context=end._context)
        self.loop.call_at(self.loop.time() + other_s, other.lose, error, context=other._context)

    def daemon_died(self, life: Any, notice_s: Callable[[], float]) -> None:
        """The process of this life is gone: the other ends learn of it after some time each."""
        for end in [end for end in self.ends if end._life is life]:
            end._closed = end._closing = True
            self.ended(end)
            other = end.other
            if other is not None:
                error = ConnectionResetError("the daemon is gone")
                at = max(end._last_ns / 1e9, self.loop.time() + notice_s())
                self.loop.call_at(at, other.lose, error, context=other._context)

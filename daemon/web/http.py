"""HTTP servers with limits, for the API, the server of conditions and the page."""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from daemon.web.tls import Identity
from schemas.api.model import Problem
from schemas.checking.addresses import may_be_host, neighbourhood, with_mapped

LINGER_S = 1.0
"""Time a client that was refused has to read why, before it is hung up on."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a client may do.

    connections: at the same time, of all clients. At the limit the one that has been idle longest, of the address with
        the most idle ones, makes room: connections that ask for nothing keep nobody out.
    head_bytes: of a request's line and headers.
    body_bytes: of its body.
    larger_bodies: of the bodies of some paths, where they may be larger.
    request_s: to send a whole request.
    answer_s: for its answer, from the whole request to the last byte taken over by the system.
    """

    connections: int = 512
    head_bytes: int = 16 * 1024
    body_bytes: int = 64 * 1024
    larger_bodies: Mapping[bytes, int] = field(default_factory=dict)
    request_s: float = 10.0
    answer_s: float = 60.0


class _Refused(Exception):
    """The request is over a limit, or none; the arguments are the status, what is wrong, and what to do."""


class IdleConnections:
    """Connections of a server that make room for others: by address, those that rest longest first.

    Each step takes the same time, however many there are: somebody who holds all of them costs the next one no more.

    leaving: connections that are being closed, which take no place any more.
    """

    def __init__(self) -> None:
        self.leaving: set[HttpToolsProtocol] = set()
        self._of: dict[str, OrderedDict[LimitedHttp, None]] = {}
        self._by_count: dict[int, OrderedDict[str, None]] = {}
        self._most = 0

    def add(self, connection: "LimitedHttp") -> None:
        """Add a connection as the one that has rested for the shortest time."""
        self.remove(connection)
        idle = self._of.setdefault(connection.who, OrderedDict())
        idle[connection] = None
        self._moved(connection.who, len(idle) - 1, len(idle))

    def remove(self, connection: "LimitedHttp") -> None:
        """Remove a connection that is busy or gone; one that is not there is fine."""
        idle = self._of.get(connection.who)
        if idle is not None and connection in idle:
            del idle[connection]
            self._moved(connection.who, len(idle) + 1, len(idle))

    def longest(self) -> "LimitedHttp | None":
        """Return the connection that has rested longest, of the address that has the most of them."""
        if not self._most:
            return None
        return next(iter(self._of[next(iter(self._by_count[self._most]))]))

    def _moved(self, who: str, before: int, now: int) -> None:
        if before:
            del self._by_count[before][who]
            if not self._by_count[before]:
                del self._by_count[before]
        if now:
            self._by_count.setdefault(now, OrderedDict())[who] = None
        else:
            del self._of[who]
        if now > self._most or self._most not in self._by_count:
            self._most = now


class LimitedHttp(HttpToolsProtocol):
    """uvicorn's protocol, with limits."""

    limits: ClassVar[Limits]
    idle: ClassVar[IdleConnections]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._refusal: _Refused | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._in_head = True
        self._is_whole = False
        """Whether a request ended with what came last."""
        self._is_sending = True
        """Whether the client owes (the rest of) a request."""
        self.who = ""
        """The address that its connections are counted by."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let a client in, if there is room or can be made."""
        super().connection_made(transport)
        self.who = neighbourhood(self.client[0]) if self.client else ""
        if not self._make_room():
            self._refuse(503, "too many connections, all of them busy", "try again later")
            return
        self.idle.add(self)
        self._until(self.limits.request_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release its place."""
        self._disarm()
        self.idle.remove(self)
        self.idle.leaving.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; over a limit, or when it is not HTTP, say so and close."""
        if self.transport.is_closing() or self._refusal is not None:
            return
        self._unset_keepalive_if_required()
        if self._is_sending and self._deadline is None:
            self._until(self.limits.request_s)
        self._is_whole = False
        try:
            self.parser.feed_data(data)
            # A header without an end is in the parser, which has told nothing of it yet. What ended a request was its
            # body for the most part, and not the head of the next one.
            self._head_bytes += len(data) if self._in_head and not self._is_whole else 0
            self._see_head()
        except httptools.HttpParserUpgrade:
            self._upgrade()
        except (httptools.HttpParserError, _Refused) as error:
            refusal = self._refusal or error
            unknown = 400, "this is not HTTP/1.1", "send HTTP/1.1"
            self._refuse(*(refusal.args if isinstance(refusal, _Refused) else unknown))

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._head_bytes, self._in_head, self._is_sending = 0, True, True

    def on_url(self, url: bytes) -> None:
        """A part of the address asked for."""
        self._head_bytes += len(url)
        self._see_head()
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._head_bytes += len(name) + len(value)
        self._see_head()
        name = name.lower()
        if name == b"transfer-encoding":
            self._stop(411, "the body has no length", "send it in one part, with a Content-Length")
        if name == b"content-length":
            most = self.limits.larger_bodies.get(self.url.partition(b"?")[0], self.limits.body_bytes)
            if not value.isdigit() or int(value[:20]) > most:
                self._stop(413, "the body is too large", f"send at most {most} bytes")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The application may begin to answer."""
        self._in_head, self._head_bytes = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The client has sent all it has to: now it is for us to answer, and for the client to take it."""
        super().on_message_complete()
        self._in_head = self._is_whole = True
        if self.cycle is None or self.cycle.response_complete:
            self._rest()
        else:
            self._is_sending = False
            self.idle.remove(self)
            self._until(self.limits.answer_s)

    def on_response_complete(self) -> None:
        """The answer is written."""
        super().on_response_complete()
        if self.transport.is_closing() or not self.cycle.response_complete:
            self._leave()
            self._until(self.limits.answer_s)
        else:
            self._rest()

    def timeout_keep_alive_handler(self) -> None:
        """Nothing more was asked."""
        super().timeout_keep_alive_handler()
        self._leave()
        # What was answered may still wait for a client that never takes it.
        self._until(self.limits.answer_s)

    def _rest(self) -> None:
        self._disarm()
        self._is_sending = True
        self.idle.add(self)

    def _leave(self) -> None:
        """Give its place to others, if it is being closed; what was answered may still be on its way."""
        if self.transport.is_closing():
            self.idle.remove(self)
            self.idle.leaving.add(self)

    def _upgrade(self) -> None:
        self._disarm()
        if self._should_upgrade():
            self.idle.remove(self)
            self.handle_websocket_upgrade()
        else:
            self._refuse(400, "the protocol that is asked for is not known", "ask for a WebSocket, or for none")

    def _see_head(self) -> None:
        if self._head_bytes > self.limits.head_bytes:
            self._stop(
                431, "the request line and headers are too large", f"send at most {self.limits.head_bytes} bytes"
            )

    def _stop(self, status: int, detail: str, fix: str) -> None:
        # The parser wraps whatever a callback raises: what was meant is remembered.
        self._refusal = _Refused(status, detail, fix)
        raise self._refusal

    def _refuse(self, status: int, detail: str, fix: str) -> None:
        self._refusal = _Refused(status, detail, fix)
        if self.cycle is not None and not self.cycle.response_complete:
            # The answer to a request before this one has no way out any more.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        body = Problem(detail=detail, fix=fix).encoded()
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        if self.transport.can_write_eof():
            # What the client still sends is read and thrown away: closed on it, the kernel would take the answer back.
            self.transport.write_eof()
            self._until(min(LINGER_S, self.limits.request_s))
        else:
            self.transport.close()
            self._leave()
            # It may never take the answer, and then it goes without.
            self._until(self.limits.request_s)

    def _until(self, seconds: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, self.drop)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def drop(self) -> None:
        """Close it now, whatever is under way."""
        self.transport.abort()
        self._leave()

    def _make_room(self) -> bool:
        if len(self.connections) - len(self.idle.leaving) <= self.limits.connections:
            return True
        longest = self.idle.longest()
        if longest is not None:
            longest.drop()
        return longest is not None


def limited(limits: Limits) -> type[LimitedHttp]:
    """The protocol with these limits, as uvicorn takes it."""
    return type("LimitedHttp", (LimitedHttp,), {"limits": limits, "idle": IdleConnections()})


HANDSHAKE_S = 5.0
"""What a client may take for its TLS handshake."""
RENEW_TICKS = 600
"""Ticks (of a tenth of a second) between two looks whether the certificate was renewed."""
INCOMING_FRAME = 64 * 1024
"""Bytes of a WebSocket message from a client: ours send none."""


class _WebSocket(WebSocketsSansIOProtocol):
    async def send(self, message: ASGISendEvent) -> None:
        """Send what the application answers."""
        await super().send(message)
        # uvicorn takes one that was refused with an answer for a defect of the application, and logs an error.
        self.handshake_complete = self.handshake_complete or (self.initial_response is not None and self.close_sent)


class LimitedServer(uvicorn.Server):
    """Serves an application until `should_exit`.

    proxies: networks of the proxies whose X-Forwarded-For and X-Forwarded-Proto are believed. From all others these
    headers are ignored: whoever may choose the own address escapes every limit of an address.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        identity: Identity | None = None,
        *,
        proxies: Sequence[str] = (),
        **options: Any,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=limited(limits),
            log_config=None,
            access_log=False,
            server_header=False,
            ws=_WebSocket,
            ws_max_size=INCOMING_FRAME,
            proxy_headers=bool(proxies),
            forwarded_allow_ips=with_mapped(proxies),
            **options,
        )
        super().__init__(config)
        self._identity = identity

    @property
    def scheme(self) -> str:
        """Of its address."""
        return "http" if self._identity is None else "https"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; as uvicorn does, but with a limit for the TLS handshake and a context that can be renewed."""
        assert sockets is not None
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            self.should_exit = True
            return
        tls: dict[str, Any] = {}
        if self._identity is not None:
            tls = {"ssl": self._identity.context, "ssl_handshake_timeout": HANDSHAKE_S}
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(self._protocol, sock=listening, backlog=self.config.backlog, **tls)
            for listening in sockets
        ]
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        """Look now and then whether the certificate was renewed."""
        if self._identity is not None and counter and counter % RENEW_TICKS == 0:
            self._identity.renew()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all connections; as uvicorn does, but a stream whose client has just left is not told to close again.

        It has answered that, but does not know it, and telling it twice would end the server with an exception.
        """
        for connection in self.server_state.connections:
            if isinstance(connection, WebSocketsSansIOProtocol) and connection.transport.is_closing():
                connection.close_sent = True
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made


def bound(
    host: str, port: int, *, is_shared: bool = False, kind: socket.SocketKind = socket.SOCK_STREAM
) -> socket.socket:
    """A socket that is bound to an address, and does not listen yet.

    is_shared: whether others of the same user may listen at the same port, too (SO_REUSEPORT): the system gives each
        connection to one of them.
    kind: of the socket.

    Raises:
        OSError: the address is taken, or is not this machine's.
    """
    if not may_be_host(host):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=kind, flags=socket.AI_PASSIVE)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        if kind == socket.SOCK_STREAM:  # without it, what ended a moment ago still has the port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(address)
    except BaseException:
        listening.close()
        raise
    return listening

"""A server of HTTP on a socket of its own, with or without TLS, in whatever event loop runs."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from daemon.web.http import Limits, limited
from daemon.web.tls import Identity
from schemas.checking.addresses import may_be_host
from schemas.checking.networks import with_mapped

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

"""Accepting: from a listening socket to connections, a few in each turn of the event loop.

asyncio's own servers accept up to the whole backlog in one turn and stop for a second when there are no descriptors
left; here a flood of connections leaves the readings of others their turns, and never takes the last descriptors.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any, Protocol

from daemon.core.process import descriptors
from daemon.core.supervision.fail_stop import fail_stop
from daemon.sources.limits.networks import Networks
from daemon.sources.tcp.connection import Connection
from schemas.checking.addresses import host_and_port

BACKLOG = 1024
"""Connections the kernel holds until they are accepted: all instruments of a machine may connect at once."""

ACCEPTED_A_TURN = 16

REST_S = 0.2
"""Pause after the kernel could give no connection: without it the loop would ask again and again."""

SHUTDOWN_S = 2.0
"""Time for the other side's farewell in TLS."""

_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listening(Protocol):
    """Where connections come from."""

    @property
    def is_listening(self) -> bool:
        """Whether there is something to connect to."""

    async def listen(self, host: str, port: int) -> str:
        """Let connections come in; return the address with its port; raises OSError."""

    def close(self) -> None:
        """Accept nothing more."""


class MakesListening(Protocol):
    """Makes a `Listening`; its arguments are those of `Acceptor`."""

    def __call__(
        self,
        *,
        networks: Networks,
        make: Callable[[str], Connection],
        refuse: Callable[[str, str | None], None],
        tls: ssl.SSLContext | None,
        handshake_timeout_s: float,
    ) -> Listening:
        """Make it; it does not listen yet."""


class Acceptor:
    """The listening sockets of a source, and the connections that are being set up.

    Args:
        make: makes a connection for an address, and counts it.
        refuse: called with why something was turned away, and from which address.
        tls: what connections speak; None is plain TCP.
        handshake_timeout_s: time for the handshake of TLS, in seconds.
    """

    def __init__(
        self,
        *,
        networks: Networks,
        make: Callable[[str], Connection],
        refuse: Callable[[str, str | None], None],
        tls: ssl.SSLContext | None,
        handshake_timeout_s: float,
    ) -> None:
        self._networks = networks
        self._make, self._refuse = make, refuse
        self._settings: dict[str, Any] = {}
        if tls is not None:
            self._settings = {
                "ssl": tls,
                "ssl_handshake_timeout": handshake_timeout_s,
                "ssl_shutdown_timeout": SHUTDOWN_S,
            }
        self._highest = 0
        self._sockets: list[socket.socket] = []
        self._resting: dict[socket.socket, asyncio.TimerHandle] = {}

    @property
    def is_listening(self) -> bool:
        """Whether there are sockets to connect to."""
        return bool(self._sockets)

    async def listen(self, host: str, port: int) -> str:
        """Listen at every address of the host; return the first, with its port.

        Raises:
            OSError: the address cannot be listened on.
        """
        self._highest = descriptors.for_senders()
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            addresses = {address: family for family, _, _, _, address in found}
            for address, family in addresses.items():
                self._sockets.append(_listening(family, address, is_alone=len(addresses) == 1))
        except OSError:
            self.close()
            raise
        for listening in self._sockets:
            loop.add_reader(listening, self._accept, listening)
        at, port = self._sockets[0].getsockname()[:2]
        return host_and_port(at, port)

    def close(self) -> None:
        """Accept nothing more."""
        loop = asyncio.get_running_loop()
        for timer in self._resting.values():
            timer.cancel()
        for listening in self._sockets:
            loop.remove_reader(listening)
            listening.close()
        self._sockets = []

    @fail_stop()
    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_A_TURN):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:  # most are of the connection, which is gone again
                if error.errno in _NO_ROOM:
                    self._refuse("no-descriptors", None)
                    self._rest(listening)
                    return
                continue
            self._take(accepted, address[0])

    def _rest(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        self._resting[listening] = loop.call_later(REST_S, self._go_on, listening)

    @fail_stop()
    def _go_on(self, listening: socket.socket) -> None:
        del self._resting[listening]
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _take(self, accepted: socket.socket, address: str) -> None:
        if address not in self._networks:
            reason = "not-allowed"
        elif accepted.fileno() >= self._highest:
            reason = "no-descriptors"
        else:
            connection = self._make(address)
            connection.opening = asyncio.get_running_loop().create_task(self._open(connection, accepted))
            connection.opening.add_done_callback(lambda opening: _opened(connection, accepted, opening))
            return
        accepted.close()
        self._refuse(reason, address)

    async def _open(self, connection: Connection, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            accepted.setblocking(False)
            await loop.connect_accepted_socket(lambda: connection, accepted, **self._settings)
        except OSError:  # the handshake failed; or without TLS: the other side is gone again
            if self._settings:
                self._refuse("tls", connection.address)


@fail_stop()
def _opened(connection: Connection, accepted: socket.socket, opening: asyncio.Task[None]) -> None:
    # Here and not in `_open`, which may be cancelled before it has begun.
    if not connection.was_made:
        accepted.close()
        connection.connection_lost(None)
    elif opening.cancelled():
        # The protocol got its transport just before: uvloop closes that now, and never says that it is lost.
        connection.connection_lost(None)


def _listening(family: int, address: Any, *, is_alone: bool) -> socket.socket:
    """A socket that listens. is_alone: `::` takes IPv4 as well; beside another it would take the port of that."""
    listening = socket.socket(family, socket.SOCK_STREAM)
    with contextlib.ExitStack() as undo:
        undo.callback(listening.close)
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_alone)
        listening.bind(address)
        listening.listen(BACKLOG)
        undo.pop_all()
    return listening

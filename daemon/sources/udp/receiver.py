"""Receiving: from a bound socket to datagrams, many in each turn of the event loop."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Protocol

from daemon.core.supervision.fail_stop import fail_stop
from schemas.checking.addresses import host_and_port
from schemas.wire import DATAGRAM_MAX

DATAGRAMS_AT_ONCE = 256
"""Datagrams read before the event loop has its turn again."""

DATAGRAM_LEAST = 512
"""Bytes of its buffer that the kernel takes for even the smallest datagram, or more."""

Address = tuple[Any, ...]


class Receiving(Protocol):
    """Where datagrams come from."""

    @property
    def is_bound(self) -> bool:
        """Whether there is something to send to."""

    async def bind(self, host: str, port: int, *, buffer_kib: int) -> str:
        """Let datagrams come in; return the address with its port; raises OSError."""

    def close(self) -> None:
        """Take what has come by now, and nothing more."""


class MakesReceiving(Protocol):
    """Makes a `Receiving`; its arguments are those of `Receiver`."""

    def __call__(self, *, take: Callable[[memoryview, Address], None], refuse: Callable[[str], None]) -> Receiving:
        """Make it; it is not bound yet."""


class Receiver:
    """The socket of a source.

    Args:
        take: called with each datagram, whose memory is used again afterwards, and the address it came from.
        refuse: called with why something was turned away.
    """

    def __init__(self, *, take: Callable[[memoryview, Address], None], refuse: Callable[[str], None]) -> None:
        self._take, self._refuse = take, refuse
        self._socket: socket.socket | None = None
        self._buffer = bytearray(DATAGRAM_MAX)

    @property
    def is_bound(self) -> bool:
        """Whether there is a socket to send to."""
        return self._socket is not None

    async def bind(self, host: str, port: int, *, buffer_kib: int) -> str:
        """Bind to the first address of the host, with so large a buffer of the kernel; return it, with its port.

        Raises:
            OSError: the address cannot be bound to.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setblocking(False)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_kib * 1024)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
        self._socket = bound
        loop.add_reader(bound, self._readable)
        at, port = bound.getsockname()[:2]
        return host_and_port(at, port)

    def close(self) -> None:
        """Read what the kernel has by now, which is lost otherwise, and nothing more.

        However fast more comes, it ends: it reads as many datagrams as the buffer can hold, at most.
        """
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        self._read(self._socket, self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // DATAGRAM_LEAST)
        self._socket.close()
        self._socket = None

    @fail_stop()
    def _readable(self) -> None:
        if self._socket is not None:
            self._read(self._socket, DATAGRAMS_AT_ONCE)

    def _read(self, bound: socket.socket, most: int) -> None:
        for _ in range(most):
            try:
                nbytes, address = bound.recvfrom_into(self._buffer)
            except BlockingIOError:
                return
            except OSError:  # an ICMP error of an earlier datagram; the socket itself goes on
                self._refuse("socket_error")
                continue
            self._take(memoryview(self._buffer)[:nbytes], address)

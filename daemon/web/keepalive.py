"""Finding out that the host at the other end of a TCP connection has vanished: without power it says no goodbye.

The kernel probes an idle connection (keepalive). While something waits to be acknowledged it sends that again instead,
for a quarter of an hour. TCP_USER_TIMEOUT would shorten this, but it also ends a connection whose other side lives and
takes nothing for a while, as a daemon that holds back its senders. So whoever waits looks how long ago the other side
acknowledged anything: as long as it lives, its kernel does.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable

IDLE_S = 20
EVERY_S = 5
PROBES = 4
"""After so long without traffic the kernel probes, so often, until so many were not answered."""

SILENT_S = IDLE_S + EVERY_S * PROBES
"""A host that acknowledged nothing for so long has vanished."""

SILENT_FULL_S = 130
"""The same while it takes nothing more: then the kernel asks ever more rarely, at least every 120 s (TCP_RTO_MAX)."""

LOOK_S = 5.0
"""How often whoever waits looks."""

_LAST_ACKNOWLEDGED = slice(56, 60)  # tcpi_last_ack_recv of struct tcp_info, in ms
_WINDOW = slice(228, 232)  # tcpi_snd_wnd; 0, too, where the kernel is too old to say


class Watch:
    """Watches over a connection until `stop`, and calls `vanished` when its other side has vanished.

    Where it was the kernel that noticed, the connection is lost with an error as ever.
    """

    def __init__(self, transport: asyncio.BaseTransport, vanished: Callable[[], None]) -> None:
        self._vanished = vanished
        self._timer: asyncio.TimerHandle | None = None
        sock = transport.get_extra_info("socket")
        if sock is not None:  # else it is no connection of a network
            with contextlib.suppress(OSError):  # it is lost already, which the next look finds
                keep_alive(sock)
            self._plan(sock)

    def stop(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _plan(self, sock: socket.socket) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look, sock)

    def _look(self, sock: socket.socket) -> None:
        try:
            is_gone = has_vanished(sock)
        except OSError:  # the socket is closed already
            is_gone = True
        if is_gone:
            self._vanished()
        else:
            self._plan(sock)


def keep_alive(sock: socket.socket) -> None:
    """Let the kernel end the connection of a host that vanished while nothing was sent, within `SILENT_S`."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, IDLE_S),
        (socket.TCP_KEEPINTVL, EVERY_S),
        (socket.TCP_KEEPCNT, PROBES),
    ):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


def has_vanished(sock: socket.socket) -> bool:
    """Whether the other side has been silent for too long; of a socket with `keep_alive`."""
    silent_s, is_full = silence(sock)
    return silent_s > (SILENT_FULL_S if is_full else SILENT_S)


def silence(sock: socket.socket) -> tuple[float, bool]:
    """For how long the other side has acknowledged nothing, in s, and whether it takes nothing more."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _WINDOW.stop)
    return int.from_bytes(info[_LAST_ACKNOWLEDGED], "little") / 1e3, not int.from_bytes(info[_WINDOW], "little")

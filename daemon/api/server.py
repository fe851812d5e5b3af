"""The API on a socket of its own, in the daemon's event loop."""

import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from daemon.api.app import make_app
from daemon.api.service import Told
from daemon.outcome import CommandFailed, reason_of


class ApiServer:
    """The API on a socket of its own, in the daemon's event loop."""

    def __init__(self, service: Told, host: str, port: int) -> None:
        self.address = f"http://{host}:{port}"
        self._host, self._port = host, port
        config = uvicorn.Config(
            make_app(service),
            log_config=None,
            access_log=False,
            lifespan="off",
            # A status stream stays open for ever: without a limit the daemon would never end.
            timeout_graceful_shutdown=2,
        )
        self._server = _Server(config)

    async def serve(self) -> None:
        """Listen until `stop`.

        Raises:
            CommandFailed: the address is taken.
        """
        listening = self._bind()
        host, port = listening.getsockname()[:2]
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        with contextlib.closing(listening):
            await self._server.serve(sockets=[listening])

    def stop(self) -> None:
        """Let `serve` return."""
        self._server.should_exit = True

    def _bind(self) -> socket.socket:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listening = socket.socket(family, kind, protocol)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError as error:
            raise CommandFailed(
                f"api.port: cannot listen on {self._host}:{self._port} ({reason_of(error)}); "
                "stop what uses it, or give another port"
            ) from None
        return listening


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The service ends on signals by itself: first the sources, the API last.
        yield

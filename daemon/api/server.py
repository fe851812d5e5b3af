"""The API on a socket of its own, in the daemon's event loop."""

import contextlib
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace

from daemon.api.app import make_app
from daemon.api.folder_intervals import BLOCK, BLOCK_BYTES, COLUMNS_BYTES, INTERVALS
from daemon.api.service import ApiService
from daemon.core.configuration import LoadedConfig, identity_of
from daemon.core.configuration.api_token import api_token
from daemon.core.outcome import cannot_listen
from daemon.core.process import descriptors
from daemon.web.http import Limits
from daemon.web.server import LimitedServer, bound
from daemon.web.tls import Identity
from schemas.checking.addresses import in_url, is_loopback

LIMITS = Limits(larger_bodies={INTERVALS.encode(): COLUMNS_BYTES, BLOCK.encode(): BLOCK_BYTES})


class _Server(LimitedServer):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The service ends on signals by itself: first the sources, the API last.
        yield


class ApiServer:
    """The API on a socket of its own, in the daemon's event loop.

    Args:
        service: the daemon that it reports on and controls.
        host: address to listen on.
        port: 0 takes a free one.
        token: with it everything may be asked; reading needs none on loopback.
        identity: turns TLS on.
        proxies: networks of the proxies whose X-Forwarded-For is believed.
    """

    def __init__(
        self,
        service: ApiService,
        host: str,
        port: int,
        *,
        token: str,
        identity: Identity | None = None,
        limits: Limits = LIMITS,
        proxies: Sequence[str] = (),
    ) -> None:
        self._host, self._port = host, port
        self._server = _Server(
            make_app(service, token=token, reads_freely=is_loopback(host)),
            limits,
            identity,
            proxies=proxies,
            lifespan="off",
            # A status stream stays open for ever: without a limit the daemon would never end.
            timeout_graceful_shutdown=2,
        )
        self.address = f"{self._server.scheme}://{in_url(host)}:{port}"

    async def serve(self) -> None:
        """Listen until `stop`.

        Raises:
            CommandFailed: the address is taken, or is none.
        """
        listening = self._bind()
        # Served again after an error, it is found at the same port.
        host, self._port = listening.getsockname()[:2]
        self.address = f"{self._server.scheme}://{in_url(host)}:{self._port}"
        with contextlib.closing(listening):
            await self._server.serve(sockets=[listening])

    def stop(self) -> None:
        """Let `serve` return."""
        self._server.should_exit = True

    def _bind(self) -> socket.socket:
        try:
            return bound(self._host, self._port)
        except OSError as error:
            raise cannot_listen("api", self._host, self._port, error) from None


def api_server(service: ApiService, loaded: LoadedConfig) -> ApiServer:
    """The API of a configuration.

    Raises:
        ConfigError: its token, certificate or key is not where it says, or cannot be used.
        CommandFailed: the token that the daemon makes cannot be written to the state folder.
    """
    api = loaded.config.api
    return ApiServer(
        service,
        api.host,
        api.port,
        token=api_token(loaded),
        identity=identity_of(loaded, api, "api"),
        # The rest is for senders, the database and the journal, whoever asks.
        limits=replace(LIMITS, connections=min(LIMITS.connections, descriptors.limit() // 4)),
        proxies=api.trusted_proxies,
    )

"""The application: its routes, and what holds for all of them; the server of it in the event loop of the daemon."""

import contextlib
import logging
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from fastapi import FastAPI, Request, Response
from fastapi_offline import FastAPIOffline

from backends.base import StoreBusy, StoreError, StoreUnavailable
from daemon.api.control import OrderLog, control_routes
from daemon.api.document import OTHERWISE, described
from daemon.api.events import alarms_routes, events_routes, marks_routes
from daemon.api.folders import BLOCK, BLOCK_BYTES, COLUMNS_BYTES, INTERVALS, folder_interval_routes, folders_routes
from daemon.api.old_readings import retention_routes, tiers_routes
from daemon.api.readings import gaps_routes, missing_routes, readings_routes
from daemon.api.service import ApiService
from daemon.api.status import status_routes
from daemon.api.visits import visit_files_routes, visits_routes
from daemon.api.workloads import governor_routes, interference_routes, reader_routes, snapshots_routes
from daemon.core.configuration import LoadedConfig, identity_of
from daemon.core.configuration.api_token import api_token
from daemon.core.outcome import cannot_listen
from daemon.core.process import descriptors
from daemon.web.access import AccessControl
from daemon.web.errors import NOTHING_UNASKED, handle_errors, problem_answer
from daemon.web.headers import SecurityHeaders
from daemon.web.http import LimitedServer, Limits, bound
from daemon.web.tls import Identity
from schemas.api.model import Problem
from schemas.checking.addresses import in_url, is_loopback

log = logging.getLogger(__name__)

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""The one page there is, `/docs`, holds a script of its own and asks nobody else."""

ROUTES = (
    status_routes,
    alarms_routes,
    events_routes,
    readings_routes,
    missing_routes,
    gaps_routes,
    retention_routes,
    tiers_routes,
    marks_routes,
    folders_routes,
    folder_interval_routes,
    control_routes,
    reader_routes,
    interference_routes,
    governor_routes,
    visits_routes,
    visit_files_routes,
    snapshots_routes,
)


def make_app(service: ApiService, *, token: str, reads_freely: bool) -> FastAPI:
    """Make the application; its pages and documents load nothing from elsewhere.

    Args:
        service: the daemon that it reports on and controls.
        token: with it everything may be asked.
        reads_freely: whether reading needs no token, because only this machine reaches it.
    """
    app = FastAPIOffline(
        title="triggerlog",
        summary="Control API of the real-time instrument data logger.",
        description="Times are nanoseconds since 1970-01-01 UTC. An instrument is named, or given by its number. What "
        "changes something needs the API's token (`Authorization: Bearer TOKEN`), and so does everything where the API "
        "does not listen on loopback.",
        redoc_url=None,
        responses=OTHERWISE,
    )
    app.openapi = partial(described, app.openapi)  # type: ignore[method-assign]
    handle_errors(app)
    app.exception_handler(StoreUnavailable)(_store_away)
    app.exception_handler(StoreError)(_store_refuses)
    for routes in ROUTES:
        app.include_router(routes(service), dependencies=[NOTHING_UNASKED])
    app.add_middleware(OrderLog, events=service.events, data=frozenset({INTERVALS, BLOCK}))
    app.add_middleware(AccessControl, token=token, reads_freely=reads_freely)
    app.add_middleware(SecurityHeaders, policy=POLICY)
    return app


async def _store_away(_: Request, error: Exception) -> Response:
    if isinstance(error, StoreBusy):
        # It answers, and somebody else is in the way for a moment.
        return problem_answer(503, Problem(detail=str(error), fix="try again in a moment"))
    fix = "try again later; the daemon tries the database again by itself"
    detail = f"the database is away: {error}" if isinstance(error, StoreError) and error.is_away else str(error)
    return problem_answer(503, Problem(detail=detail, fix=fix))


async def _store_refuses(request: Request, error: Exception) -> Response:
    log.error("%s %s: the database refuses: %s", request.method, request.url.path, error)
    fix = "see that the database is as triggerlog made it, and that its login has its rights: `triggerlog check-config`"
    return problem_answer(500, Problem(detail=f"the database refuses: {error}", fix=fix))


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

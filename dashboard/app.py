"""The page's application: our WebSocket for live numbers, Dash for what a person does, one loop for both."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output
from fastapi import FastAPI, Request, Response, WebSocket, WebSocketDisconnect
from starlette.middleware.gzip import GZipMiddleware

from daemon.web.access import is_own_page
from daemon.web.errors import handle_errors, problem_answer
from daemon.web.headers import SecurityHeaders
from dashboard import zone
from dashboard.access.callback_requests import CallbackRequests, Failures
from dashboard.access.login import LoginGuard
from dashboard.access.own_pages import OwnPages
from dashboard.compression import LEAST_BYTES, CompressedFiles
from dashboard.feed.client import Daemon, DaemonApi, DaemonUnavailable, StatusStream
from dashboard.feed.hub import Hub, Viewer
from dashboard.feed.marks import SHOWN_MOST
from dashboard.feed.relay import file_of, plain_answer
from dashboard.own_tabs.loading import ids_of, load_tabs
from dashboard.tabs import TABS, alarm_strip, marks
from dashboard.tabs.orders import Orders
from dashboard.tabs.page import page
from dashboard.tabs.parts import CHOOSE
from dashboard.tabs.settings import settings_element
from dashboard.tabs.tab import Tab
from schemas.api.model import Problem
from schemas.api.status import Status

ASSETS = Path(__file__).parent / "assets"
NAMES_AGAIN_S = 2.0  # names of instruments, and marks

INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<title>{%title%}</title>
<link rel="icon" type="image/svg+xml" href="/assets/icon.svg">
{%css%}
</head>
<body>
{%app_entry%}
<!-- log out -->
<!-- settings -->
<noscript>This page draws live data and needs JavaScript.</noscript>
<footer>{%config%}{%scripts%}{%renderer%}</footer>
</body>
</html>"""

LOG_OUT = (
    '<form id="log-out" method="post" action="/logout"><button class="plain" type="submit">Log out</button></form>'
)

POLICY = (
    "default-src 'self'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)
"""A browser that obeys it cannot be made to ask anyone but this page, whatever a library has in mind."""

log = logging.getLogger(__name__)


class Feed:
    """Keeps the hub fed: the status stream, names of instruments, marks, and a heartbeat while the daemon is gone."""

    def __init__(self, hub: Hub, api: DaemonApi) -> None:
        self._hub = hub
        self._api = api
        self._named: tuple[int, tuple[str, ...]] | None = None
        self._unnamed = asyncio.Event()
        self._marked: tuple[int, int] | None = None
        self._unmarked = asyncio.Event()
        self._stream = StatusStream(api.daemon, on_status=self._take, on_loss=hub.lost)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._stream.run())
            tasks.create_task(self._beat())
            tasks.create_task(self._name())
            tasks.create_task(self._mark())

    def _take(self, status: Status) -> None:
        self._hub.take(status)
        if self._named != (status.epoch, tuple(status.groups)):
            self._unnamed.set()
        if status.marks is not None and self._marked != (status.epoch, status.marks.changes):
            self._unmarked.set()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._hub.beat()

    async def _name(self) -> None:
        while True:
            await self._unnamed.wait()
            status = self._hub.status
            assert status is not None
            try:
                self._hub.names = {name: (await self._api.group(name)).instruments for name in status.groups}
                self._named = (status.epoch, tuple(status.groups))
            except DaemonUnavailable as problem:
                log.warning("no names for the instruments yet: %s", problem)
                await asyncio.sleep(NAMES_AGAIN_S)
            self._unnamed.clear()

    async def _mark(self) -> None:
        while True:
            await self._unmarked.wait()
            status = self._hub.status
            assert status is not None
            assert status.marks is not None
            try:
                self._hub.marks = tuple((await self._api.marks(last=SHOWN_MOST)).marks)
                self._hub.marks_problem = None
                self._marked = (status.epoch, status.marks.changes)
            except DaemonUnavailable as problem:
                log.warning("the newest marks are not known: %s", problem)
                self._hub.marks_problem = str(problem)
                await asyncio.sleep(NAMES_AGAIN_S)
            self._unmarked.clear()


def build_app(
    *,
    daemon: Daemon,
    origins: frozenset[str] = frozenset(),
    password: str | None = None,
    is_secure: bool = False,
    own_tabs: Sequence[Path] = (),
    time_zone: str = "UTC",
) -> FastAPI:
    """The page for a daemon.

    password: asked of everybody who comes; None asks nobody.
    is_secure: whether it is served over TLS.
    origins: further origins (scheme://host[:port]) whose pages may open the stream, for a proxy that changes the Host.
    own_tabs: files of a site's own tabs, which come after the page's.
    time_zone: IANA name of the zone in which times are shown, for this whole process.
    """
    zone.use(time_zone)
    build = _build(own_tabs)
    tabs = (*TABS, *load_tabs(own_tabs, _ids(build))) if own_tabs else TABS
    hub = Hub(daemon=daemon.url, build=build)
    questions = DaemonApi(daemon)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        feed = asyncio.create_task(Feed(hub, questions).run())
        try:
            yield
        finally:
            feed.cancel()
            await asyncio.wait([feed])
            await questions.close()

    # No OpenAPI page: FastAPI's would be fetched from a CDN, and nobody programs against the page.
    api = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    handle_errors(api)
    api.exception_handler(DaemonUnavailable)(_unavailable)

    @api.websocket("/ws")
    async def stream(socket: WebSocket, epoch: int | None = None, sequence: int | None = None) -> None:
        if not is_own_page(socket.scope, origins):
            await socket.close(code=1008, reason="origin not allowed")
            return
        await socket.accept()
        viewer = hub.join(epoch=epoch, sequence=sequence)
        try:
            await _serve(socket, viewer)
        finally:
            hub.leave(viewer)

    @api.get("/healthz")
    async def health() -> dict[str, str | int | None]:
        return {"page": "ok", "daemon": hub.problem or "ok", "browsers": hub.viewers}

    @api.get("/history/{group}")
    async def history(group: str) -> Response:
        known = hub.history(group)
        if known is None:
            return plain_answer(404, f"there is no group {group!r}")
        return Response(known, media_type="application/json", headers={"Cache-Control": "no-store"})

    @api.get("/answers/{workload}/{run}/{kind}")
    async def file(workload: str, run: str, kind: str) -> Response:
        return await file_of(questions, workload, run, kind)

    policy = _mount_dash(api, tabs, hub, questions, build=build, way_out=LOG_OUT if password is not None else "")
    api.add_middleware(CompressedFiles)
    api.add_middleware(GZipMiddleware, minimum_size=LEAST_BYTES, compresslevel=5)  # what Dash answers
    api.add_middleware(OwnPages, origins=origins)
    api.add_middleware(LoginGuard, password=password, is_secure=is_secure, origins=origins)
    api.add_middleware(SecurityHeaders, policy=policy)
    return api


async def _unavailable(_: Request, error: Exception) -> Response:
    return problem_answer(502, Problem(detail=str(error)))


def _ids(build: str) -> list[str]:
    """The ids of the page's own elements."""
    return [*ids_of(page(build, TABS)), *(name for tab in TABS for part in tab.layout() for name in ids_of(part))]


def _mount_dash(api: FastAPI, tabs: Sequence[Tab], hub: Hub, questions: DaemonApi, *, build: str, way_out: str) -> str:
    """Mount the page; returns the policy that its scripts need."""
    app = Dash(
        __name__,
        server=False,
        backend="fastapi",
        title="triggerlog",
        update_title="",
        assets_folder=str(ASSETS),
        index_string=INDEX.replace("<!-- log out -->", way_out).replace("<!-- settings -->", settings_element()),
        serve_locally=True,
        # What is in a tab is there once it has been opened.
        suppress_callback_exceptions=True,
    )
    # Dash's own WebSocket would be opened by every page though nothing here uses it (dash #3939).
    app.backend.websocket_capability = False
    app.layout = page(build, tabs)
    Orders(questions).callbacks(app)
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("triggerlog", "choose"), Input(CHOOSE, "data"), prevent_initial_call=True
    )
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("triggerlog", "group"), Input("group-choice", "value"), prevent_initial_call=True
    )
    app.clientside_callback(ClientsideFunction("triggerlog", "keys"), Input("keys-on", "checked"))  # type: ignore[no-untyped-call]
    alarm_strip.register(app, hub, questions)
    marks.register(app, hub, questions)
    for tab in tabs:
        _fill(app, tab)
        if tab.callbacks is not None:
            tab.callbacks(app, hub, questions)
    api.add_middleware(Failures)
    app.init_app(api)
    api.add_middleware(CallbackRequests, callbacks=app.callback_map)
    return POLICY.format(scripts=" ".join(f"'{digest}'" for digest in _digests(app)))


def _fill(app: Dash, tab: Tab) -> None:
    """Have a tab's panel filled when it is first opened."""

    @app.callback(Output(f"fill-{tab.key}", "children"), Input(f"open-{tab.key}", "data"), prevent_initial_call=True)
    async def fill(_: bool) -> list[Any]:
        return tab.layout()


def _digests(app: Dash) -> list[str]:
    """Of the scripts that Dash writes into the page itself."""
    return [str(digest).strip("'") for digest in app.csp_hashes()]


async def _serve(socket: WebSocket, viewer: Viewer) -> None:
    async def send() -> None:
        while True:
            await socket.send_text(await viewer.next())

    async def until_gone() -> None:
        while True:
            await socket.receive()

    tasks = [asyncio.create_task(send()), asyncio.create_task(until_gone())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception) and not isinstance(ended, WebSocketDisconnect | RuntimeError):
                raise ended


def _build(own_tabs: Sequence[Path]) -> str:
    """Changes with the program: a browser that comes back to another build reloads itself."""
    digest = hashlib.sha256(version("triggerlog").encode() + settings_element().encode())
    for file in sorted(ASSETS.iterdir()):
        digest.update(file.read_bytes())
    for file in own_tabs:
        with suppress(OSError):  # its tab says what is wrong with it
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]

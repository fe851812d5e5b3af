"""The page's application: our WebSocket for live numbers, Dash for what a person does, one loop for both."""

import asyncio
import gzip
import hashlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output
from fastapi import FastAPI, Request, Response, WebSocket, WebSocketDisconnect
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.web.access import is_own_page
from daemon.web.errors import handle_errors, problem_answer
from daemon.web.headers import SecurityHeaders, takes_gzip
from dashboard import zone
from dashboard.access.callback_requests import CallbackRequests, Failures, OwnPages
from dashboard.access.login import LoginGuard
from dashboard.feed.client import Daemon, DaemonApi, DaemonUnavailable, StatusStream
from dashboard.feed.hub import Hub, Viewer
from dashboard.feed.relay import file_of, plain_answer
from dashboard.feed.sentences import SHOWN_MOST
from dashboard.own_tabs.loading import ids_of, load_tabs
from dashboard.tabs import TABS, alarm_strip, marks
from dashboard.tabs.orders import Orders
from dashboard.tabs.page import page, settings_element
from dashboard.tabs.parts import CHOOSE
from dashboard.tabs.tab import Tab
from schemas.api.model import Problem
from schemas.api.status import Status

PATHS = ("/assets/", "/_dash-component-suites/")
LEAST_BYTES = 1024
LEVEL = 9
FOR_EVER = "public, max-age=31536000, immutable"
TYPES = ("text/", "application/javascript", "application/json", "image/svg+xml")


class CompressedFiles:
    """Compresses the files of the page, each when it is first asked for, and keeps what comes of it.

    A file whose address carries its version (`?m=`, a fingerprint) is never asked for again by the same browser.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._kept: dict[tuple[str, str], bytes] = {}  # by path, and what tells its versions apart

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, compressed where it is a file of the page and the browser takes that."""
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(PATHS):
            await self._app(scope, receive, send)
            return
        takes = takes_gzip(Headers(scope=scope).get("accept-encoding", ""))
        await self._app(scope, receive, _Sending(self._kept, scope, send, takes=takes).send)


class _Sending:
    """One answer, held back until it is whole."""

    def __init__(self, kept: dict[tuple[str, str], bytes], scope: Scope, send: Send, *, takes: bool) -> None:
        self._kept = kept
        self._path, self._is_versioned = scope["path"], b"m=" in scope["query_string"]
        self._send = send
        self._takes = takes
        self._start: Message | None = None
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begin(message)
            if self._start is None:
                await self._send(message)
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body"):
                await self._end(self._start)

    def _begin(self, message: Message) -> None:
        headers = MutableHeaders(raw=message["headers"])
        if self._is_versioned and message["status"] == 200:
            headers["cache-control"] = FOR_EVER
        headers.add_vary_header("Accept-Encoding")
        if self._takes and message["status"] == 200 and headers.get("content-type", "").startswith(TYPES):
            self._start = message

    async def _end(self, start: Message) -> None:
        headers = MutableHeaders(raw=start["headers"])
        body = bytes(self._body)
        if len(body) >= LEAST_BYTES:
            body = await self._compressed(body, headers.get("etag", ""))
            headers["content-encoding"], headers["content-length"] = "gzip", str(len(body))
            if "etag" in headers:
                headers["etag"] = f"W/{headers['etag'].removeprefix('W/')}"
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})

    async def _compressed(self, body: bytes, etag: str) -> bytes:
        key = self._path, etag or f"{len(body)} bytes"
        if key not in self._kept:
            # In a thread: it takes half a second, in which every browser's stream would stand.
            self._kept[key] = await asyncio.to_thread(gzip.compress, body, LEVEL, mtime=0)
        return self._kept[key]


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

"""Scripts and styles travel compressed, and once: those of plotly.js alone are 4.8 MB."""

import asyncio
import gzip

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.web.headers import takes_gzip

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

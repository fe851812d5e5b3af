"""What browsers ask of the daemon through the page: once for all of them, and only while somebody looks."""

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import Any

import orjson
from fastapi import APIRouter, Response

from dashboard.feed.client import DaemonApi, DaemonUnavailable, detail_of

FRESH_S = {"/storage": 4.0}
"""An answer younger than this is passed on again: the browsers ask as often as they draw, whoever else looks."""

EXPERIMENT = re.compile(r"[A-Za-z0-9_.:-]{1,80}")

REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox allow-same-origin"
)
"""A report is a picture with words: it runs no script and asks nobody."""


@dataclass(slots=True)
class _Held:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    until_s: float = 0.0
    status: int = 0
    body: bytes = b""


class Relay:
    """Passes answers of the daemon on; those of FRESH_S are kept as long as it says."""

    def __init__(self, api: DaemonApi) -> None:
        self._api = api
        self._held = {path: _Held() for path in FRESH_S}

    async def kept(self, path: str) -> Response:
        """The answer to one of FRESH_S; who asks while the daemon is being asked waits for the same answer."""
        held = self._held[path]
        async with held.lock:
            if time.monotonic() >= held.until_s:
                held.status, held.body = await self._asked(path)
                held.until_s = time.monotonic() + FRESH_S[path]
        return _passed(held.status, held.body)

    async def passed(self, path: str) -> Response:
        """The answer to anything else."""
        return _passed(*await self._asked(path))

    async def report(self, path: str) -> Response:
        """A page that the daemon keeps, for the eyes alone."""
        try:
            answer = await self._api.ask(path)
        except DaemonUnavailable as problem:
            return plain_answer(502, str(problem))
        if answer.is_error:
            return plain_answer(answer.status_code, detail_of(answer))
        return Response(answer.content, 200, {"Content-Security-Policy": REPORT_POLICY}, "text/html")

    async def _asked(self, path: str) -> tuple[int, bytes]:
        try:
            answer = await self._api.ask(path)
        except DaemonUnavailable as problem:
            return 502, orjson.dumps({"detail": str(problem)})
        if answer.is_error:
            return answer.status_code, orjson.dumps({"detail": detail_of(answer)})
        return 200, answer.content


def relay_routes(api: DaemonApi) -> APIRouter:
    """`GET /told/...`."""
    routes = APIRouter(prefix="/told")
    relay = Relay(api)

    @routes.get("/storage")
    async def storage() -> Response:
        return await relay.kept("/storage")

    @routes.get("/interference/{experiment}")
    async def past(experiment: str) -> Response:
        if not EXPERIMENT.fullmatch(experiment):
            return _unknown(experiment)
        return await relay.passed(f"/interference/{experiment}")

    @routes.get("/interference/{experiment}/report")
    async def report(experiment: str) -> Response:
        if not EXPERIMENT.fullmatch(experiment):
            return _unknown(experiment)
        return await relay.report(f"/interference/{experiment}/report")

    return routes


def json_answer(status: int, body: Any) -> Response:
    """An answer that nobody keeps."""
    return _passed(status, orjson.dumps(body))


def _passed(status: int, body: bytes) -> Response:
    return Response(body, status, {"Cache-Control": "no-store"}, "application/json")


def plain_answer(status: int, line: str) -> Response:
    """One line for the eyes, that nobody keeps."""
    return Response(line, status, {"Cache-Control": "no-store"}, "text/plain")


def _unknown(experiment: str) -> Response:
    return json_answer(404, {"detail": f"there is no experiment {experiment!r}"})

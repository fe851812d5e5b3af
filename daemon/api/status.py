"""Routes for the state of the daemon."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from daemon.api.service import ApiService
from daemon.telemetry.exposition.collector import StatusCollector
from daemon.web.errors import problem_answer
from schemas.api.model import Problem
from schemas.api.status import Health, Readiness, Status
from schemas.api.storage import Storage
from schemas.states import DaemonState

STREAMS = 64
"""Who may listen at the same time: a page counts as one, however many browsers look at it."""


def status_routes(service: ApiService) -> APIRouter:
    """Health, readiness, metrics, status and its stream, storage."""
    routes = APIRouter()
    registry = CollectorRegistry()
    registry.register(StatusCollector(service.reporter))
    ProcessCollector(registry=registry)  # under the names that every exporter has

    @routes.get("/health", tags=["status"])
    async def health() -> Health:
        """Answer while the process lives and its event loop turns."""
        return Health()

    away: dict[int | str, dict[str, Any]] = {
        503: {"description": "Readings are not being committed now.", "model": Readiness}
    }

    @routes.get("/ready", tags=["status"], responses=away, response_model_exclude_none=True)
    async def ready(response: Response) -> Readiness:
        """Answer 200 while readings are taken and committed, 503 with the reason while they are not."""
        status = service.reporter.status()
        if status.state is DaemonState.RUNNING:
            return Readiness(status="ready")
        response.status_code = 503
        return Readiness(status=status.state, reason=status.store.problem or f"the daemon is {status.state}")

    @routes.get("/metrics", tags=["status"], response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Metrics for Prometheus."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @routes.get("/api/v1/status", tags=["status"])
    async def status() -> Status:
        """What the daemon is doing."""
        return service.reporter.status()

    @routes.get("/api/v1/storage", tags=["status"])
    async def storage() -> Storage:
        """Sizes, growth, partitions and journals; light: the server is asked for its partitions every 30 s at most."""
        return await service.storage.storage()

    @routes.websocket("/api/v1/stream")
    async def stream(socket: WebSocket) -> None:
        """Stream the status, four times a second, each frame a whole snapshot."""
        if service.stream.listeners >= STREAMS:
            problem = Problem(detail=f"{STREAMS} listen to the status already", fix="try again later")
            await socket.send_denial_response(problem_answer(503, problem, {"Retry-After": "10"}))
            return
        await socket.accept()
        async with contextlib.aclosing(service.stream.snapshots()) as snapshots:
            await _until_gone(socket, snapshots)

    return routes


async def _until_gone(socket: WebSocket, snapshots: AsyncIterator[str]) -> None:
    """Send snapshots until the listener hangs up, which only receiving from it shows."""
    sending = asyncio.ensure_future(_send_all(socket, snapshots))
    try:
        while not sending.done():
            receiving = asyncio.ensure_future(socket.receive())
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done() and receiving.result()["type"] == "websocket.disconnect":
                break
            receiving.cancel()
    finally:
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
            await sending


async def _send_all(socket: WebSocket, snapshots: AsyncIterator[str]) -> None:
    async for snapshot in snapshots:
        await socket.send_text(snapshot)

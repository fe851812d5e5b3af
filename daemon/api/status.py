"""Routes that tell how the daemon is."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import APIRouter, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from daemon.api.service import Told
from daemon.telemetry.exposition.collector import StatusCollector
from schemas.api.status import State, Status

STREAMS = 64
"""Who may listen at the same time: a page counts as one, however many browsers look at it."""


def status_routes(service: Told) -> APIRouter:
    """Health, readiness, metrics, status and its stream."""
    routes = APIRouter()
    registry = CollectorRegistry()
    registry.register(StatusCollector(service.reporter))
    ProcessCollector(registry=registry)  # what every exporter tells of its process, under the usual names

    @routes.get("/health", tags=["status"])
    async def health() -> dict[str, str]:
        """Answer while the process lives and its event loop turns."""
        return {"status": "alive"}

    @routes.get("/ready", tags=["status"], responses={503: {"description": "Readings are not being committed now."}})
    async def ready(response: Response) -> dict[str, str]:
        """Answer 200 while readings are taken and committed, 503 with the reason while they are not."""
        status = service.reporter.status()
        if status.state is State.RUNNING:
            return {"status": "ready"}
        response.status_code = 503
        return {"status": status.state, "reason": status.store.problem or f"the daemon is {status.state}"}

    @routes.get("/metrics", tags=["status"], response_class=Response)
    async def metrics() -> Response:
        """Metrics for Prometheus."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @routes.get("/api/v1/status", tags=["status"])
    async def status() -> Status:
        """What the daemon is doing."""
        return service.reporter.status()

    @routes.websocket("/api/v1/stream")
    async def stream(socket: WebSocket) -> None:
        """Stream the status, four times a second, each frame a whole snapshot."""
        if service.stream.listeners >= STREAMS:
            detail = {"detail": f"{STREAMS} listen to the status already; try again later"}
            await socket.send_denial_response(JSONResponse(detail, 503, {"Retry-After": "10"}))
            return
        await socket.accept()
        async with contextlib.aclosing(service.stream.snapshots()) as snapshots:
            await _until_gone(socket, snapshots)

    return routes


async def _until_gone(socket: WebSocket, snapshots: AsyncIterator[str]) -> None:
    """Send snapshots until the listener hangs up, which only receiving from it tells."""
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

"""The application: its routes, and what holds for all of them."""

from collections.abc import Awaitable, Callable

import orjson
from fastapi import FastAPI, Request, Response
from fastapi_offline import FastAPIOffline

from backends.base import StoreUnavailable
from daemon.api.control import control_routes
from daemon.api.origin import is_own_page
from daemon.api.readings import readings_routes
from daemon.api.service import Told
from daemon.api.status import status_routes


def make_app(service: Told) -> FastAPI:
    """Make the application; its pages and documents load nothing from elsewhere."""
    app = FastAPIOffline(
        title="triggerlog",
        summary="Control API of the real-time instrument data logger.",
        description="Times are nanoseconds since 1970-01-01 UTC. An instrument is named, or given by its number.",
        redoc_url=None,
    )
    app.middleware("http")(_refuse_foreign_pages)
    app.exception_handler(StoreUnavailable)(_store_away)
    for router in (status_routes(service), readings_routes(service), control_routes(service)):
        app.include_router(router)
    return app


async def _refuse_foreign_pages(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
    """Keep a page somewhere on the web from giving orders to a daemon that its visitor can reach."""
    if request.method != "GET" and not is_own_page(request.headers.get("origin"), request.headers.get("host")):
        return Response(
            orjson.dumps({"detail": "pages of other hosts may not give orders"}), 403, media_type="application/json"
        )
    return await proceed(request)


async def _store_away(_: Request, error: Exception) -> Response:
    return Response(orjson.dumps({"detail": f"the database is away: {error}"}), 503, media_type="application/json")

"""The application: its routes, and what holds for all of them."""

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi_offline import FastAPIOffline

from backends.base import StoreUnavailable
from daemon.api.control import control_routes
from daemon.api.dead_letters import dead_letter_routes
from daemon.api.governor import governor_routes
from daemon.api.guard import Guard
from daemon.api.interference import interference_routes
from daemon.api.missing import missing_routes
from daemon.api.readers import reader_routes
from daemon.api.readings import readings_routes
from daemon.api.service import Told
from daemon.api.status import status_routes
from daemon.api.storage import storage_routes
from daemon.api.visit_files import visit_files_routes
from daemon.api.visits import visits_routes
from daemon.api.wrong import wrong_request
from daemon.web.headers import SecurityHeaders

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""The one page there is, `/docs`, holds a script of its own and asks nobody else."""

ROUTES = (
    status_routes,
    storage_routes,
    readings_routes,
    missing_routes,
    control_routes,
    dead_letter_routes,
    reader_routes,
    interference_routes,
    governor_routes,
    visits_routes,
    visit_files_routes,
)


def make_app(service: Told, *, token: str, reads_freely: bool) -> FastAPI:
    """Make the application; its pages and documents load nothing from elsewhere.

    Args:
        service: what it tells of.
        token: what opens everything.
        reads_freely: whether reading needs no token, because only this machine reaches it.
    """
    app = FastAPIOffline(
        title="triggerlog",
        summary="Control API of the real-time instrument data logger.",
        description="Times are nanoseconds since 1970-01-01 UTC. An instrument is named, or given by its number. What "
        "changes something needs the API's token (`Authorization: Bearer TOKEN`), and so does everything where the API "
        "does not listen on loopback.",
        redoc_url=None,
    )
    app.exception_handler(StoreUnavailable)(_store_away)
    app.exception_handler(RequestValidationError)(wrong_request)
    for routes in ROUTES:
        app.include_router(routes(service))
    app.add_middleware(Guard, token=token, reads_freely=reads_freely)
    app.add_middleware(SecurityHeaders, policy=POLICY)
    return app


async def _store_away(_: Request, error: Exception) -> Response:
    return Response(orjson.dumps({"detail": f"the database is away: {error}"}), 503, media_type="application/json")

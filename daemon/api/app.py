"""The application: its routes, and what holds for all of them."""

import logging
from functools import partial

from fastapi import FastAPI, Request, Response
from fastapi_offline import FastAPIOffline

from backends.base import StoreBusy, StoreError, StoreUnavailable
from daemon.api.alarms import alarms_routes
from daemon.api.control import control_routes
from daemon.api.document import OTHERWISE, described
from daemon.api.events import events_routes
from daemon.api.folder_intervals import BLOCK, INTERVALS, folder_interval_routes
from daemon.api.folders import folders_routes
from daemon.api.gaps import gaps_routes
from daemon.api.governor import governor_routes
from daemon.api.interference import interference_routes
from daemon.api.marks import marks_routes
from daemon.api.missing import missing_routes
from daemon.api.order_log import OrderLog
from daemon.api.readers import reader_routes
from daemon.api.readings import readings_routes
from daemon.api.retention import retention_routes
from daemon.api.service import ApiService
from daemon.api.snapshots import snapshots_routes
from daemon.api.status import status_routes
from daemon.api.tiers import tiers_routes
from daemon.api.visit_files import visit_files_routes
from daemon.api.visits import visits_routes
from daemon.web.access import AccessControl
from daemon.web.errors import handle_errors, problem_answer
from daemon.web.headers import SecurityHeaders
from daemon.web.strictness import NOTHING_UNASKED
from schemas.api.problem import Problem

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

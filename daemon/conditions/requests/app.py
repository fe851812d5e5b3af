"""The application of one process: what passes a request, from the outside to the routes."""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from backends.base import StoreUnavailable
from backends.conditions.base import ConditionsStore
from daemon.conditions.reading.reads import Reads
from daemon.conditions.requests.counting import Counting, Tally
from daemon.conditions.requests.errors import WithTables, handle_errors
from daemon.conditions.requests.hot import HotRoutes
from daemon.conditions.requests.routes.intervals import interval_orders, interval_routes
from daemon.conditions.requests.routes.lists import list_orders, list_routes
from daemon.conditions.requests.routes.nested import Nested
from daemon.conditions.requests.routes.routing import Context
from daemon.conditions.requests.routes.tags import tag_orders, tag_routes
from daemon.web.access import AccessControl
from daemon.web.headers import SecurityHeaders
from schemas.api.status import Health

POLICY = "default-src 'none'; frame-ancestors 'none'"
"""There are no pages."""

REQUESTS = {"burst": 40_000.0, "per_s": 5_000.0}
"""Of one address: a farm behind one begins 20,000 jobs at once, and each asks twice."""


@dataclass(frozen=True, kw_only=True)
class ConditionsApp:
    """The application, and what it has answered."""

    app: ASGIApp
    tally: Tally


def make_app(
    store: ConditionsStore,
    reads: Reads,
    *,
    token: str,
    reads_freely: bool,
    any_name: bool = False,
    lack: Callable[[], StoreUnavailable | None] = lambda: None,
    tell: Callable[[str], None] = lambda text: None,
) -> ConditionsApp:
    """Make it.

    Args:
        store: gets the orders, and whatever is not in memory.
        reads: answers what jobs ask.
        token: needed for every order.
        reads_freely: whether reading needs none.
        any_name: whether it may be read by any name; see `AccessControl`.
        lack: says why the tables are not there, None where they are; without them nothing is asked of the store.
        tell: records what an operator should know.
    """
    api = FastAPI(title="triggerlog conditions", docs_url=None, redoc_url=None, redirect_slashes=False)
    handle_errors(api)
    context, nested = Context(store=store, tell=tell), Nested(store)
    for routes in (tag_routes, list_routes, interval_routes):
        api.include_router(routes(context, nested))
    for orders in (tag_orders, list_orders, interval_orders):
        api.include_router(orders(context))

    @api.get("/health")
    async def health() -> Health:
        """Answer while the process lives and its event loop turns."""
        return Health()

    tally = Tally()
    hot = HotRoutes(api, reads=reads, counted=tally.read)
    guarded = AccessControl(
        WithTables(hot, lack), token=token, reads_freely=reads_freely, any_name=any_name, requests=REQUESTS
    )
    secured = SecurityHeaders(PasswordIsToken(guarded), policy=POLICY)
    return ConditionsApp(app=Counting(secured, tally), tally=tally)


class PasswordIsToken:
    """Takes the password of Basic authentication for the token, whoever the user is.

    The reference's client in C++ can send no header of its own, but libcurl makes one of `any:TOKEN@` in its base_url.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with the token as everybody else sends it."""
        if scope["type"] == "http":
            given = scope["headers"]
            headers = [(name, _bearer(value) if name == b"authorization" else value) for name, value in given]
            scope = {**scope, "headers": headers}
        await self._app(scope, receive, send)


def _bearer(authorization: bytes) -> bytes:
    kind, _, given = authorization.partition(b" ")
    if kind.lower() != b"basic":
        return authorization
    try:
        password = base64.b64decode(given.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return authorization  # it is refused as no token
    return b"Bearer " + password

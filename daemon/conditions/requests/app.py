"""The application of one process: what passes a request, from the outside to the routes."""

import base64
import binascii
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backends.base import StoreUnavailable
from backends.conditions import ConditionsStore
from daemon.conditions.clients import Client, Uses, agent_of
from daemon.conditions.reads import Answer, Reads
from daemon.conditions.requests.hot import PREFIX, VALID, HotRoutes, WithTables, handle_errors
from daemon.conditions.requests.intervals import interval_orders, interval_routes
from daemon.conditions.requests.nested import Nested
from daemon.conditions.requests.routing import Context
from daemon.conditions.requests.tags import list_orders, list_routes, tag_orders, tag_routes
from daemon.web.access import AccessControl
from daemon.web.errors import client_of, header
from daemon.web.headers import SecurityHeaders
from schemas.api.status import Health

# --- counting --------------------------------------------------------------------------------------------------------

ROUTES = frozenset(
    {
        *("gtstatus", "pt", "gt", "globalTag", "globalTags", "gtPayloadLists", "pl", "pl_attach", "piov"),
        *("piov_attach", "bulk_piov", "cloneGlobalTag", "gt_change_status", "deleteGlobalTag", "deletePayloadType"),
        *("deletePayloadList", "deletePayloadIOV", "payloadiovs", "global-tags", "payload-types", "payload-lists"),
        *("payload-iovs",),
    }
)
"""The first words of the routes: whatever is asked, there are not more counters."""

VALID_ROUTE = "payloadiovs"
OTHER = "other"
NO_ANSWER = 499
"""The client was gone before its answer began; the number that nginx logs for it."""


@dataclass(kw_only=True)
class Counts:
    """What was counted.

    answers: by route and status. latencies_ms: of questions for what is valid. memory_hits, database_reads: of these.
    uses: by client.
    """

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    latencies_ms: list[float] = field(default_factory=list)
    memory_hits: int = 0
    database_reads: int = 0
    uses: Uses = field(default_factory=Uses)


class Tally:
    """What was answered since it was taken last."""

    def __init__(self) -> None:
        self.counts = Counts()

    def read(self, answer: Answer) -> None:
        """Count where an answer came from."""
        self.counts.memory_hits += answer.is_memory
        self.counts.database_reads += not answer.is_memory

    def answered(self, path: str, client: Client, status: int, nbytes: int, took_ms: float) -> None:
        """Count an answer; nbytes: of its body."""
        route = route_of(path)
        self.counts.answers[route, status] += 1
        self.counts.uses.count(client, nbytes)
        if route == VALID_ROUTE:
            self.counts.latencies_ms.append(took_ms)

    def take(self) -> Counts:
        """What was counted since the last time."""
        taken, self.counts = self.counts, Counts()
        return taken


class Counting:
    """Counts every answer, refusals among them, and passes everything on."""

    def __init__(self, app: ASGIApp, tally: Tally) -> None:
        self._app = app
        self._tally = tally

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and count."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status, nbytes = NO_ANSWER, 0

        async def answer(message: Message) -> None:
            nonlocal status, nbytes
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)
            nbytes += len(message.get("body", b""))

        try:
            await self._app(scope, receive, answer)
        finally:
            client = client_of(scope), agent_of(header(scope, b"user-agent") or "")
            self._tally.answered(scope["path"], client, status, nbytes, (time.perf_counter() - began) * 1e3)


def route_of(path: str) -> str:
    """By which name a request is counted."""
    if path in VALID:
        return VALID_ROUTE
    first = path.removeprefix(PREFIX).partition("/")[0]
    return first if path.startswith(PREFIX) and first in ROUTES else OTHER


# --- what a request passes -------------------------------------------------------------------------------------------

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

"""Orders: what a person wants the daemon to do, sent on with that person's token and never with the page's own."""

import re
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from daemon.web.origin import is_own_page
from dashboard.feed.client import DaemonApi, DaemonUnavailable, detail_of

ORDERS: dict[str, tuple[str, str]] = {
    "readers/start": ("POST", "/readers"),
    "readers/stop": ("DELETE", "/readers/{name}"),
    "governor": ("POST", "/governor"),
    "interference/start": ("POST", "/interference"),
    "interference/stop": ("DELETE", "/interference"),
}
"""What can be ordered, and the request to the daemon's API that does it; `{name}` is taken out of the order."""

SEGMENT = re.compile(r"[A-Za-z0-9_-]{1,64}")
LARGEST_ORDER = 64 * 1024
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="triggerlog"'}
"""Says that it is the API's token that is missing or wrong, and not the page's log-in that has ended."""


class _Refused(Exception):
    """An order that is not sent on; the arguments are the status and one line."""


def order_routes(api: DaemonApi, origins: frozenset[str]) -> APIRouter:
    """`POST /orders/{order}`, for pages of this host and port and of `origins` alone."""
    routes = APIRouter()

    @routes.post("/orders/{order:path}")
    async def give(order: str, request: Request) -> Response:
        try:
            method, path, body, token = await _understood(order, request, origins)
            answer = await api.order(method, path, body=body, authorization=token)
        except _Refused as refused:
            status, line = refused.args
            return _answer(status, {"detail": line}, CHALLENGE if status == 401 else None)
        except DaemonUnavailable as problem:
            return _answer(502, {"detail": str(problem)})
        if answer.is_error:
            headers = CHALLENGE if answer.status_code == 401 else None
            return _answer(answer.status_code, {"detail": detail_of(answer)}, headers)
        return _answer(200, {"answer": orjson.loads(answer.content or b"null")})

    return routes


async def _understood(order: str, request: Request, origins: frozenset[str]) -> tuple[str, str, Any, str]:
    """Method, path, body and token. Raises _Refused."""
    if not is_own_page(request.scope, origins):
        raise _Refused(403, "a page of another origin may not give orders")
    if order not in ORDERS:
        raise _Refused(404, f"there is no order {order!r}; there is: {', '.join(ORDERS)}")
    method, path = ORDERS[order]
    given = await _object(request)
    if "{name}" in path:
        path = path.replace("{name}", _segment(given.pop("name", None)))
    token = request.headers.get("authorization", "")
    if not token.lower().startswith("bearer "):
        raise _Refused(401, "this needs the API's token")
    return method, path, given if method == "POST" else None, token


async def _object(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise _Refused(415, "send the order as application/json")
    body = await request.body()
    if len(body) > LARGEST_ORDER:
        raise _Refused(413, f"an order may have {LARGEST_ORDER} bytes")
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise _Refused(400, "the order is not JSON") from None
    if not isinstance(given, dict):
        raise _Refused(400, "the order is not a JSON object")
    return given


def _segment(name: Any) -> str:
    """A name as one part of a path. Raises _Refused for what could lead elsewhere."""
    if not isinstance(name, str) or not SEGMENT.fullmatch(name):
        raise _Refused(422, "name: give the name of what is meant, of letters, digits, `_` and `-`")
    return name


def _answer(status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(body), status, headers, "application/json")

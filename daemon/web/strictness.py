"""What a request says that nobody asked for is refused: ignored, it would be answered as if it had been obeyed."""

from collections.abc import Iterator

from fastapi import Depends
from fastapi.dependencies.models import Dependant
from starlette.requests import HTTPConnection

from daemon.web.errors import ApiError
from schemas.checking.problems import listed, suggestion


async def _refuse_unknown(request: HTTPConnection) -> None:
    # Monitors and balancers may add parameters of their own to what is not below /api/.
    route = request.scope.get("route")
    if request.scope["type"] != "http" or route is None or not request.url.path.startswith("/api/"):
        return
    known = sorted(_parameters(route.dependant))
    for name in request.query_params:
        if name not in known:
            fix = suggestion(name, known) if known else "take it out; there are no parameters here"
            raise ApiError(422, "unknown parameter", fix, field=name)


async def _refuse_unasked(request: HTTPConnection) -> None:
    await _refuse_unknown(request)
    route = request.scope.get("route")
    if request.scope["type"] != "http" or route is None or not request.url.path.startswith("/api/"):
        return
    if route.body_field is None and _has_body(request):
        known = sorted(_parameters(route.dependant))
        fix = f"send none; there are the parameters {listed(known)}" if known else "send none"
        raise ApiError(422, "there is no body here", fix, field="body")


def _parameters(dependant: Dependant) -> Iterator[str]:
    yield from (parameter.alias for parameter in dependant.query_params)
    for needed in dependant.dependencies:
        yield from _parameters(needed)


def _has_body(request: HTTPConnection) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


NOTHING_UNASKED = Depends(_refuse_unasked)
"""Refuses parameters that a route does not have, and a body where it takes none."""

NOTHING_UNKNOWN = Depends(_refuse_unknown)
"""Refuses parameters that a route does not have; a body that it does not look at may come."""

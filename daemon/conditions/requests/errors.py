"""Answers that are errors: JSON with a `detail` of one line always, which is what clients of the contract show.

A name that is taken is also under `name`, as in the reference: its client in C++ shows `name[0]` before `detail`.
"""

import logging
from collections.abc import Callable
from http import HTTPStatus

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from backends.base import BatchRejected, StoreBusy, StoreError, StoreUnavailable
from daemon.web.access import OPEN
from daemon.web.errors import DOCS, ApiError, defect, http_problem, invalid_request
from schemas.api.problem import Problem
from schemas.checking.problems import printable
from schemas.conditions.rules import ConditionsRefused, RefusalKind

log = logging.getLogger(__name__)

STATUS = {
    RefusalKind.UNKNOWN: HTTPStatus.NOT_FOUND,
    RefusalKind.EXISTS: HTTPStatus.BAD_REQUEST,
    RefusalKind.CONFLICT: HTTPStatus.CONFLICT,
    RefusalKind.STATUS: HTTPStatus.CONFLICT,
    RefusalKind.INVALID: HTTPStatus.BAD_REQUEST,
}
AGAIN = "try again later"
OTHER_TEXT = "write it with characters that the encoding of the database has"
RETRY = {"retry-after": "2"}
"""Seconds after which what could not be answered now may be asked again."""


def answer_of(error: Exception) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of the answer to a request that failed with this."""
    match error:
        case ConditionsRefused():
            problem = Problem(detail=error.problem, fix=error.fix, field=error.field)
            return STATUS[error.kind], _body(problem, is_name=error.kind is RefusalKind.EXISTS), {}
        case StoreError():
            return _of_store(error)
        case ApiError():
            # The reference has no 422.
            status = HTTPStatus.BAD_REQUEST if error.status == HTTPStatus.UNPROCESSABLE_ENTITY else error.status
            return status, _body(error.problem), dict(error.headers or {})
    return HTTPStatus.INTERNAL_SERVER_ERROR, _body(defect(error)), {}


def _of_store(error: StoreError) -> tuple[int, bytes, dict[str, str]]:
    match error:
        case StoreBusy():
            return HTTPStatus.SERVICE_UNAVAILABLE, _body(Problem(detail=str(error), fix="try again")), RETRY
        case StoreUnavailable():
            problem = Problem(detail=f"the database is away: {error}" if error.is_away else str(error), fix=AGAIN)
            return HTTPStatus.SERVICE_UNAVAILABLE, _body(problem), RETRY
    # Its words name the server and the login, which are for the log alone.
    log.warning("what was asked is refused: %s", error)
    if isinstance(error, BatchRejected):
        problem = Problem(detail="the database cannot have a text or number of this", fix=OTHER_TEXT)
        return HTTPStatus.BAD_REQUEST, _body(problem), {}
    problem = Problem(detail="the database refuses what the server asks of it", fix="see the log of the server")
    return HTTPStatus.INTERNAL_SERVER_ERROR, _body(problem), {}


def _body(problem: Problem, *, is_name: bool = False) -> bytes:
    line = printable(str(problem)).replace(DOCS, "see docs/conditions.md")
    found: dict[str, object] = {"name": [line]} if is_name else {}
    field = {} if problem.field is None else {"field": problem.field}
    return orjson.dumps(found | {"detail": line} | field)


def handle_errors(app: FastAPI) -> None:
    """Let the application answer every error so."""
    for kind in (ConditionsRefused, StoreError, ApiError, Exception):
        app.exception_handler(kind)(_failed)
    app.exception_handler(HTTPException)(_http_error)
    app.exception_handler(RequestValidationError)(_invalid_request)


class WithTables:
    """Passes on what is asked once the tables are there: until then the database would refuse it for want of them."""

    def __init__(self, app: ASGIApp, lack: Callable[[], StoreUnavailable | None]) -> None:
        self._app = app
        self._lack = lack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or say why not."""
        lack = self._lack() if scope["type"] == "http" and scope["path"] not in OPEN else None
        if lack is None:
            await self._app(scope, receive, send)
            return
        status, body, headers = answer_of(lack)
        await Response(body, status, headers, "application/json")(scope, receive, send)


async def _failed(_: Request, error: Exception) -> Response:
    status, body, headers = answer_of(error)
    return Response(body, status, headers, "application/json")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Response(_body(http_problem(request, error)), error.status_code, error.headers, "application/json")


async def _invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return Response(_body(invalid_request(request, error)), HTTPStatus.BAD_REQUEST, None, "application/json")

"""Answers that are errors: JSON with a `detail` of one line always, which is what clients of the contract show.

A name that is taken is also under `name`, as in the reference: its client in C++ shows `name[0]` before `detail`.
"""

from http import HTTPStatus

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from backends.base import StoreError, StoreUnavailable
from daemon.web.errors import DOCS, ApiError, defect, http_problem, invalid_request
from schemas.api.problem import Problem
from schemas.conditions.rules import ConditionsRefused, RefusalKind

STATUS = {
    RefusalKind.UNKNOWN: HTTPStatus.NOT_FOUND,
    RefusalKind.EXISTS: HTTPStatus.BAD_REQUEST,
    RefusalKind.CONFLICT: HTTPStatus.CONFLICT,
    RefusalKind.STATUS: HTTPStatus.CONFLICT,
    RefusalKind.INVALID: HTTPStatus.BAD_REQUEST,
}
RETRY_S = "2"
"""Seconds after which what the database kept from being answered may be asked again."""


def answer_of(error: Exception) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of the answer to a request that failed with this."""
    match error:
        case ConditionsRefused():
            problem = Problem(detail=error.problem, fix=error.fix, field=error.field)
            return STATUS[error.kind], _body(problem, is_name=error.kind is RefusalKind.EXISTS), {}
        case StoreUnavailable():
            problem = Problem(detail=f"the database is away: {error}", fix="try again later")
            return HTTPStatus.SERVICE_UNAVAILABLE, _body(problem), {"retry-after": RETRY_S}
        case StoreError():
            return HTTPStatus.INTERNAL_SERVER_ERROR, _body(Problem(detail=str(error))), {}
        case ApiError():
            # The reference has no 422.
            status = HTTPStatus.BAD_REQUEST if error.status == HTTPStatus.UNPROCESSABLE_ENTITY else error.status
            return status, _body(error.problem), dict(error.headers or {})
    return HTTPStatus.INTERNAL_SERVER_ERROR, _body(defect(error)), {}


def _body(problem: Problem, *, is_name: bool = False) -> bytes:
    line = str(problem).replace(DOCS, "see docs/conditions.md")
    found: dict[str, object] = {"name": [line]} if is_name else {}
    field = {} if problem.field is None else {"field": problem.field}
    return orjson.dumps(found | {"detail": line} | field)


def handle_errors(app: FastAPI) -> None:
    """Let the application answer every error so."""
    for kind in (ConditionsRefused, StoreError, ApiError, Exception):
        app.exception_handler(kind)(_failed)
    app.exception_handler(HTTPException)(_http_error)
    app.exception_handler(RequestValidationError)(_invalid_request)


async def _failed(_: Request, error: Exception) -> Response:
    status, body, headers = answer_of(error)
    return Response(body, status, headers, "application/json")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Response(_body(http_problem(request, error)), error.status_code, error.headers, "application/json")


async def _invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return Response(_body(invalid_request(request, error)), HTTPStatus.BAD_REQUEST, None, "application/json")

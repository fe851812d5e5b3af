"""Errors of an API: a Problem, whatever is wrong; requests that no route sees; and parameters that none has."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import Scope, Send

from schemas.api.model import Problem, problem_of
from schemas.checking import problems
from schemas.checking.problems import listed, suggestion

DOCS = "see /docs"


class ApiError(Exception):
    """A request that is refused: the status, what is wrong, what to do, and in which field or parameter."""

    def __init__(
        self, status: int, detail: str, fix: str | None = None, *, field: str | None = None, wait_s: int | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.problem = Problem(detail=detail, fix=fix, field=field)
        self.headers = None if wait_s is None else {"Retry-After": str(wait_s)}


def handle_errors(app: FastAPI) -> None:
    """Let the application answer every error with a Problem."""
    app.exception_handler(ApiError)(_refused)
    app.exception_handler(HTTPException)(_http_error)
    app.exception_handler(RequestValidationError)(_invalid_request)
    app.exception_handler(Exception)(_defect)


def problem_answer(status: int, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that holds a problem."""
    return Response(problem.encoded(), status, headers, "application/json")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return problem_answer(error.status, error.problem, error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem_answer(error.status_code, http_problem(request, error), error.headers)


def http_problem(request: Request, error: HTTPException) -> Problem:
    """What is wrong with a request that the framework refused: its address, its method, or a body that is no JSON."""
    if (unreadable := _unreadable(error.__cause__)) is not None:
        return Problem(detail=unreadable, fix=f"send one object; {DOCS}", field="body")
    is_routing = error.detail == HTTPStatus(error.status_code).phrase
    detail = f"{request.method} {request.url.path}: {error.detail.lower()}" if is_routing else error.detail
    return Problem(detail=detail, fix=DOCS if is_routing else None)


def _unreadable(cause: BaseException | None) -> str | None:
    """Why a body cannot be read as JSON, where the parser has no place for it."""
    if isinstance(cause, RecursionError):
        return "not valid JSON: arrays or objects lie in each other too deeply"
    if isinstance(cause, UnicodeDecodeError):
        return "not valid JSON: it is not UTF-8 text"
    if isinstance(cause, ValueError):  # of `int`
        return "not valid JSON: a number has too many digits"
    return None


async def _defect(_: Request, error: Exception) -> Response:
    return problem_answer(500, defect(error))


def defect(error: Exception) -> Problem:
    """A defect of ours; the server logs it with its traceback."""
    fix = "see the log of the process that answered, and report it"
    return Problem(detail=f"the request failed with {type(error).__name__}", fix=fix)


async def _invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_answer(422, invalid_request(request, error))


def invalid_request(request: Request, error: RequestValidationError) -> Problem:
    """What is wrong with the fields and parameters of a request, each named."""
    return problem_of(list(_problems(_model_of(request), list(error.errors()))))


def _model_of(request: Request) -> type[BaseModel] | None:
    """What the body of the request has to be."""
    body = getattr(request.scope.get("route"), "body_field", None)
    model = None if body is None else body.field_info.annotation
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def _problems(model: type[BaseModel] | None, errors: list[Any]) -> Iterator[problems.Problem]:
    for error in errors:
        where, *steps = error["loc"]
        if where != "body" and error["type"] == "refused":
            at = ".".join(map(str, steps))
            yield from (problems.wrong(found.problem, found.fix, at) for found in error["ctx"]["problems"])
            continue
        if where != "body" or model is None:
            yield problems.wrong(error["msg"][:1].lower() + error["msg"][1:], DOCS, ".".join(map(str, steps)) or where)
        elif error["type"] == "json_invalid":
            yield problems.wrong(
                f"not valid JSON ({error['ctx']['error'].lower()})", f"send one object; {DOCS}", "body"
            )
        elif not steps and error["type"] != "refused":
            yield problems.wrong("there is no JSON object", f"send one; {DOCS}", "body")
        else:
            error["loc"] = tuple(steps)
            yield from problems.problems(model, [error])


@dataclass(frozen=True, kw_only=True)
class Denial:
    """Why a request is refused.

    status: of HTTP.
    detail: what is wrong, in one line.
    fix: what to do, in one line.
    challenge: what may be sent to get in (WWW-Authenticate).
    wait_s: after which it may be tried again.
    """

    status: int
    detail: str
    fix: str
    challenge: str | None = None
    wait_s: float | None = None

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Of the answer."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self.body))]
        if self.challenge is not None:
            headers.append((b"www-authenticate", self.challenge.encode()))
        if self.wait_s is not None:
            headers.append((b"retry-after", b"%d" % math.ceil(self.wait_s)))
        return headers

    @property
    def body(self) -> bytes:
        """Of the answer."""
        return Problem(detail=self.detail, fix=self.fix).encoded()

    async def answer(self, scope: Scope, send: Send) -> None:
        """Send it: as an answer, or in place of the WebSocket that was asked for."""
        kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
        await send({"type": f"{kind}.start", "status": self.status, "headers": self.headers})
        await send({"type": f"{kind}.body", "body": self.body})


def header(scope: Scope, name: bytes) -> str | None:
    """A header of a request; None when it is not there."""
    for found, value in scope["headers"]:
        if found == name:
            return bytes(value).decode("latin-1")
    return None


def client_of(scope: Scope) -> str:
    """The address that a request came from."""
    return str(scope["client"][0]) if scope.get("client") else ""


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

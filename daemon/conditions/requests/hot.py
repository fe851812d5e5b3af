"""The two questions that every job asks, answered before the framework sees them: it takes as long as all the rest.

A client of the contract looks for the name of its tag in the list of all, and then asks what is valid at its key.
Whatever else changes something is noted here, so that no process answers from what it knew before.
"""

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import parse_qsl

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backends.base import BatchRejected, StoreBusy, StoreError, StoreUnavailable
from daemon.conditions.reads import Answer, Reads
from daemon.web.access import OPEN
from daemon.web.errors import DOCS, ApiError, defect, header, http_problem, invalid_request
from daemon.web.headers import takes_gzip
from schemas.api.model import Problem
from schemas.checking.problems import printable, suggestion
from schemas.conditions.intervals import LARGEST, Key
from schemas.conditions.rules import ConditionsRefused, RefusalKind

# --- answers that are errors -----------------------------------------------------------------------------------------
# A name that is taken is also under `name`, as in the reference: its client in C++ shows `name[0]` before `detail`.

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


PREFIX = "/api/cdb_rest/"
VALID = frozenset(
    PREFIX + path for path in ("payloadiovs/", "payloadiovs", "payload-iovs/query/", "payload-iovs/query")
)
TAGS = frozenset(PREFIX + path for path in ("globalTags", "global-tags"))
READING = frozenset({"GET", "HEAD"})

PARAMETERS = ("gtName", "majorIOV", "minorIOV", "shape")

NEWEST = Key(LARGEST, LARGEST - 1)
"""The last key that an interval can hold. The one behind it, with which clients ask for the newest, is taken for it."""

FOR_EVER = b"public, max-age=31536000, immutable"
"""Of a frozen tag alone. A locked one may be unlocked and changed, however closed its intervals are."""
A_SECOND = b"max-age=1"

JSON = (b"content-type", b"application/json")
VARY = (b"vary", b"accept-encoding")


class HotRoutes:
    """Answers them, and passes everything else on.

    counted: called with each answer to the question for what is valid.
    """

    def __init__(self, app: ASGIApp, *, reads: Reads, counted: Callable[[Answer], None]) -> None:
        self._app = app
        self._reads = reads
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif "\0" in scope["path"] or b"%00" in scope["query_string"]:
            await self._answered(scope, send, _not_stored)
        elif scope["path"] in VALID:
            await self._answered(scope, send, self._valid)
        elif scope["path"] in TAGS and not scope["query_string"] and scope["method"] in READING:
            await self._answered(scope, send, self._tags)
        elif scope["method"] in READING:
            # The framework knows no HEAD; the server leaves out the body.
            await self._app({**scope, "method": "GET"}, receive, send)
        else:
            await self._app(scope, receive, self._after_order(send))

    def _after_order(self, send: Send) -> Send:
        async def answer(message: Message) -> None:
            # Before anybody is told, and of failures, too: what became of such an order may be unknown.
            if message["type"] == "http.response.start":
                self._reads.wrote()
            await send(message)

        return answer

    async def _answered(self, scope: Scope, send: Send, answer: Callable[[Scope], Awaitable[Answer]]) -> None:
        try:
            found = await answer(scope)
        except Exception as error:  # a defect, too, is answered in JSON; the server logs it
            status, body, headers = answer_of(error)
            more = [(name.encode(), value.encode()) for name, value in headers.items()]
            await _send(send, status, [JSON, *more], body)
            if status == 500:
                raise
            return
        await self._send_answer(scope, send, found)

    async def _valid(self, scope: Scope) -> Answer:
        if scope["method"] not in READING:
            raise ApiError(405, f"{scope['method']} is not allowed", "ask with GET")
        tag, key, is_dict = question(scope["query_string"])
        answer = await self._reads.valid_at(tag, key, is_dict=is_dict)
        self._counted(answer)
        return answer

    async def _tags(self, _: Scope) -> Answer:
        return await self._reads.list_tags()

    async def _send_answer(self, scope: Scope, send: Send, answer: Answer) -> None:
        etag, body = f'"{answer.etag}"'.encode(), answer.body.plain
        more = [VARY]
        if takes_gzip(header(scope, b"accept-encoding") or ""):
            packed = self._reads.compressed(answer)
            if packed is not None:
                body, etag = packed, etag[:-1] + b'-gzip"'
                more.append((b"content-encoding", b"gzip"))
        wanted = header(scope, b"if-none-match")
        more.append((b"etag", etag))
        if answer.age_s is None:
            more.append((b"cache-control", FOR_EVER if answer.is_final else A_SECOND))
        else:
            more += [(b"age", b"%d" % answer.age_s), (b"cache-control", b"no-store")]
        if wanted is not None and _matches(wanted, answer.etag):
            await _send(send, 304, more, None)
        else:
            await _send(send, 200, [JSON, *more], body)


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes | None) -> None:
    if body is not None:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body or b""})


async def _not_stored(_: Scope) -> Answer:
    raise ApiError(400, "it has a character that no database stores", "leave out NUL (%00)", field="address")


def _matches(wanted: str, etag: str) -> bool:
    """Whether a client has this answer, compressed or not (RFC 9110, 13.1.2)."""
    given = (each.strip().removeprefix("W/").strip('"') for each in wanted.split(","))
    return any(each in (etag, f"{etag}-gzip", "*") for each in given)


def question(query: bytes) -> tuple[str, Key, bool]:
    """The tag and key that are asked for, and whether rows are to be objects.

    Raises:
        ApiError: a parameter is missing, unknown, or wrong.
    """
    given = dict(parse_qsl(query.decode(errors="replace"), keep_blank_values=True))
    for name in given:
        if name not in PARAMETERS:
            raise ApiError(400, "unknown parameter", suggestion(name, PARAMETERS), field=name)
    if "gtName" not in given:
        raise ApiError(400, "missing", "give the name of a global tag", field="gtName")
    shape = given.get("shape", "")
    if shape not in ("", "dict"):
        raise ApiError(400, f"{shape[:60]!r} is not known here", "give `dict`, or leave it out", field="shape")
    key = Key(_number(given, "majorIOV"), _number(given, "minorIOV"))
    return given["gtName"], min(key, NEWEST), shape == "dict"


def _number(given: dict[str, str], name: str) -> int:
    text = given.get(name)
    if text is None:
        raise ApiError(400, "missing", f"give a whole number of 0 to {LARGEST}", field=name)
    if not (text.isascii() and text.isdigit() and len(text) <= 19) or (number := int(text)) > LARGEST:
        shown = repr(text[:40])
        raise ApiError(400, f"{shown} is no key", f"give a whole number of 0 to {LARGEST}", field=name)
    return number

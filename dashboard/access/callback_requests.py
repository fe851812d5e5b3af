"""Requests that have Dash call back: one that no page of ours sends is refused, with what is wrong in it.

Dash takes each of them as its own browser code writes it, and fails with a defect of the page where it is not so. So do
callbacks with the values in it.
"""

import json
import logging
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dash import ALL, ALLSMALLER, Output
from dash.exceptions import PreventUpdate
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.web.access import is_own_page
from daemon.web.errors import Denial, defect, header, problem_answer
from schemas.api.model import Problem
from schemas.checking.problems import printable

PATH = "/_dash-update-component"
MANY = (["ALL"], ["ALLSMALLER"])
"""Values of an id, as Dash writes them, that any number of elements fit."""
FIX = "send what the page itself sends, or ask the daemon's API"
OF_VALUES = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
"""Errors of a callback that gets other values than the page sends; any other one is a defect."""
OWN = Path(__file__).parents[1]
LONGEST = 200
"""Characters of an error in the log."""

log = logging.getLogger(__name__)


class CallbackRequests:
    """Refuses requests to call back that are not as a callback of the page declares them.

    callbacks: `Dash.callback_map`.
    """

    def __init__(self, app: ASGIApp, *, callbacks: Mapping[str, Mapping[str, Any]]) -> None:
        self._app = app
        self._callbacks = callbacks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what can be called."""
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body, message = b"", await receive()
        while message["type"] == "http.request":
            body += message["body"]
            if not message.get("more_body", False):
                break
            message = await receive()
        else:
            return  # the client is gone
        kind = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
        wrong = next(self._problems(body), None) if kind == "application/json" else "it is not application/json"
        if wrong is not None:
            denial = Denial(status=400, detail=f"the body is no call of this page: {wrong}", fix=FIX)
            await denial.answer(scope, send)
            return
        whole: Message | None = {"type": "http.request", "body": body, "more_body": False}

        async def again() -> Message:
            nonlocal whole
            first, whole = whole, None
            return await receive() if first is None else first

        await self._app(scope, again, send)

    def _problems(self, body: bytes) -> Iterator[str]:
        try:
            call = json.loads(body)
            json.dumps(call, ensure_ascii=False).encode()  # halves of characters can be in no answer
        except (ValueError, RecursionError):
            yield "it is not valid JSON"
            return
        if not isinstance(call, dict):
            yield "there is no JSON object"
            return
        output = call.get("output")
        callback = self._callbacks.get(output) if isinstance(output, str) else None
        if callback is None:
            yield "output: there is no such callback"
            return
        yield from _differences("inputs", call.get("inputs", []), callback["inputs"])
        yield from _differences("state", call.get("state", []), callback["state"])
        if not callback["no_output"] and not _are_outputs(call.get("outputs"), callback["output"]):
            yield "outputs: they are not those of the callback"
        changed = call.get("changedPropIds", [])
        if not (isinstance(changed, list) and all(isinstance(each, str) for each in changed)):
            yield "changedPropIds: it is no list of names"


class Failures:
    """Answers requests that fail, and logs why: Dash, which is around this, answers 500 and says nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on all requests."""
        try:
            await self._app(scope, receive, send)
        except PreventUpdate:
            raise
        except Exception as error:
            if scope["type"] != "http":
                raise
            if scope["path"] == PATH and isinstance(error, OF_VALUES):
                _note(error)
                detail = f"a callback cannot take the values of this call ({type(error).__name__})"
                answer = problem_answer(400, Problem(detail=detail, fix=FIX))
            else:
                log.exception("a request failed: a defect of triggerlog")
                answer = problem_answer(500, defect(error))
            await answer(scope, receive, send)


def _note(error: Exception) -> None:
    """Log where a callback failed: it may be a defect all the same. Lines are limited by the place."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((each for each in reversed(frames) if Path(each.filename).is_relative_to(OWN)), frames[-1])
    place = f"{Path(frame.filename).relative_to(OWN.parent)}, line {frame.lineno} in {frame.name}"
    said = printable(" ".join(str(error).split())[:LONGEST])
    log.error(f"a callback cannot take the values of a call: {place}: %s: %s", type(error).__name__, said)


def _differences(field: str, given: Any, declared: list[Mapping[str, str]]) -> Iterator[str]:
    """Compare what a call gives with the properties that its callback declares."""
    if not isinstance(given, list) or len(given) != len(declared):
        yield f"{field}: there are not {len(declared)} of them"
        return
    for number, (each, wanted) in enumerate(zip(given, declared, strict=True)):
        at = f"{field}[{number}]"
        pattern = json.loads(wanted["id"]) if wanted["id"].startswith("{") else wanted["id"]
        if isinstance(pattern, dict) and any(value in MANY for value in pattern.values()):
            if not isinstance(each, list) or not all(_fits(one, pattern, wanted["property"]) for one in each):
                yield f"{at}: it is no list of elements with {wanted['property']}"
        elif not _fits(each, pattern, wanted["property"]):
            yield f"{at}: it is not {wanted['id']}.{wanted['property']}"


def _fits(given: Any, pattern: str | dict[str, Any], name: str) -> bool:
    """Tell whether a property is that of an element whose id is as declared; a list there stands for any value."""
    if not _is_property(given) or given["property"] != name:
        return False
    if isinstance(pattern, str) or isinstance(given["id"], str):
        return bool(given["id"] == pattern)
    return given["id"].keys() == pattern.keys() and all(
        isinstance(value, list) or value == given["id"][key] for key, value in pattern.items()
    )


def _are_outputs(given: Any, declared: Output | list[Output]) -> bool:
    """Tell whether outputs are as declared: a property, or a list of those of any number of elements, for each."""
    if not isinstance(declared, list):
        given, declared = [given], [declared]
    if not isinstance(given, list) or len(given) != len(declared):
        return False
    for each, wanted in zip(given, declared, strict=True):
        id_ = wanted.component_id
        of_many = isinstance(id_, dict) and any(value in (ALL, ALLSMALLER) for value in id_.values())
        if not (isinstance(each, list) and all(map(_is_property, each)) if of_many else _is_property(each)):
            return False
    return True


def _is_property(given: Any) -> bool:
    return (
        isinstance(given, dict) and isinstance(given.get("id"), str | dict) and isinstance(given.get("property"), str)
    )


READING = frozenset({"GET", "HEAD", "OPTIONS"})


class OwnPages:
    """Refuses requests of pages of other origins, but those that only read.

    Args:
        origins: further origins whose pages may ask (see `dashboard.app.build_app`).
    """

    def __init__(self, app: ASGIApp, *, origins: frozenset[str]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may be asked."""
        is_order = scope["type"] == "http" and scope["method"] not in READING
        if not is_order or is_own_page(scope, self._origins):
            await self._app(scope, receive, send)
            return
        detail, fix = "a page of another origin may not give orders", "open the page itself"
        await Denial(status=403, detail=detail, fix=fix).answer(scope, send)

"""Requests that have Dash call back: one that no page of ours sends is refused, with what is wrong in it.

Dash takes each of them as its own browser code writes it, and fails with a defect of the page where it is not so.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.web.denial import Denial, header

PATH = "/_dash-update-component"
MANY = (["ALL"], ["ALLSMALLER"])
"""Values of an id, as Dash writes them, that any number of elements fit."""
FIX = "send what the page itself sends, or ask the daemon's API"


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
        outputs, wanted = call.get("outputs", []), callback["output"]
        if not callback["no_output"] and not _are_outputs(outputs, len(wanted) if isinstance(wanted, list) else None):
            yield "outputs: they are not those of the callback"
        changed = call.get("changedPropIds", [])
        if not (isinstance(changed, list) and all(isinstance(each, str) for each in changed)):
            yield "changedPropIds: it is no list of names"


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


def _are_outputs(given: Any, count: int | None) -> bool:
    """Tell whether outputs are one property, or a list of as many, each of which may be a list of elements."""
    if count is None:
        return _is_property(given)
    return (
        isinstance(given, list)
        and len(given) == count
        and all(_is_property(each) or (isinstance(each, list) and all(map(_is_property, each))) for each in given)
    )


def _is_property(given: Any) -> bool:
    return (
        isinstance(given, dict) and isinstance(given.get("id"), str | dict) and isinstance(given.get("property"), str)
    )

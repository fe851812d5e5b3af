"""The API's description (OpenAPI), which `/docs` shows: every route with its summary and what it refuses."""

from collections.abc import Callable, Mapping
from typing import Any

from schemas.api.model import Problem

Responses = dict[int | str, dict[str, Any]]

OTHERWISE: Responses = {"default": {"model": Problem, "description": "An error: what is wrong, and what to do."}}
"""For every route: an error is a Problem, whatever its status."""

EVERYWHERE = {
    "400": "The header Host or Origin is malformed, or the body is not JSON.",
    "403": "A page of another origin asks, or one that reached this address by a name.",
    "429": "Too many requests, questions for what is stored or wrong tokens came from this address.",
    "500": "The request failed; the log of the daemon says why.",
}
BY_TOKEN = {"401": "The API's token is missing or wrong."}
BELOW_API = {"422": "A parameter or the body is not what it should be; `field` names what."}
NO_TOKEN = frozenset({"/health"})


def refusals(reasons: Mapping[int, str]) -> Responses:
    """What a route refuses by itself: the reason by status."""
    return {status: {"model": Problem, "description": reason} for status, reason in reasons.items()}


def described(openapi: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The document of FastAPI, completed: it knows the routes, and not what answers in place of them."""
    document = openapi()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _complete(operation, path)
    return document


def _complete(operation: dict[str, Any], path: str) -> None:
    # FastAPI would make a summary of the name of a function, such as "Describe".
    operation["summary"] = operation["description"].splitlines()[0].split(". ")[0].removesuffix(".")
    responses = operation["responses"]
    problem = responses["default"]["content"]
    for status, reason in _around(operation, path).items():
        responses.setdefault(status, {"description": reason, "content": problem})
    for status, response in responses.items():
        if not status.startswith("2"):
            # An error is JSON also where the answer is a file; FastAPI knows one type a route.
            response["content"] = {"application/json": next(iter(response["content"].values()))}
    operation["responses"] = dict(sorted(responses.items()))


def _around(operation: Mapping[str, Any], path: str) -> dict[str, str]:
    """What a request may be refused with before its route is asked, or after it failed: the reason by status."""
    return {
        **EVERYWHERE,
        **({} if path in NO_TOKEN else BY_TOKEN),
        **(BELOW_API if path.startswith("/api/") else {}),
    }

"""What the routes share: where they are, how they answer, and what they need."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from backends.conditions.base import ConditionsStore
from daemon.conditions.requests.hot import PREFIX
from daemon.web.access import NEEDS_TOKEN
from daemon.web.denial import client_of
from daemon.web.strictness import NOTHING_UNKNOWN

Handler = Callable[..., Awaitable[Response]]


@dataclass(frozen=True, kw_only=True)
class Context:
    """The needs of the routes. tell: records what an operator should know."""

    store: ConditionsStore
    tell: Callable[[str], None]

    def tell_tag(self, what: str, request: Request) -> None:
        """An order about a whole tag was carried out: it is an event, with where it came from."""
        self.tell(f"{what} (ordered from {client_of(request.scope)})")


def new_router() -> APIRouter:
    """Routes below the prefix of the contract, whose parameters are all known."""
    return APIRouter(prefix=PREFIX.rstrip("/"), dependencies=[NOTHING_UNKNOWN])


def at(router: APIRouter, method: str, *paths: str) -> Callable[[Handler], Handler]:
    """Put a function at several paths: that of the reference, and its readable alias."""
    needs = [] if method == "GET" else [NEEDS_TOKEN]

    def put(handler: Handler) -> Handler:
        for path in paths:
            router.add_api_route(f"/{path}", handler, methods=[method], dependencies=needs)
        return handler

    return put


def json(content: Any) -> Response:
    """An answer."""
    return Response(orjson.dumps(content), media_type="application/json")

"""What is wrong with a request, in one line that names the field and the mend, as the page and the commands show it."""

from collections.abc import Iterator
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel

from schemas.checking.problems import problems


async def wrong_request(request: Request, error: Exception) -> Response:
    """Answer a request that has a wrong field."""
    assert isinstance(error, RequestValidationError)
    lines = "; and ".join(dict.fromkeys(_lines(_model_of(request), list(error.errors()))))
    return Response(orjson.dumps({"detail": lines}), 422, media_type="application/json")


def _model_of(request: Request) -> type[BaseModel] | None:
    """What the body of the request has to be."""
    body = getattr(request.scope.get("route"), "body_field", None)
    model = None if body is None else body.field_info.annotation
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def _lines(model: type[BaseModel] | None, errors: list[Any]) -> Iterator[str]:
    for error in errors:
        where, *steps = error["loc"]
        if where != "body" or model is None:
            yield f"{'.'.join(map(str, steps)) or where}: {error['msg'].lower()}; see /docs"
        elif error["type"] == "json_invalid":
            yield f"body: not valid JSON ({error['ctx']['error'].lower()}); send one object (/docs shows it)"
        elif not steps and error["type"] != "refused":
            yield "body: there is no JSON object; send one (/docs shows it)"
        else:
            error["loc"] = tuple(steps)
            yield from map(str, problems(model, [error]))

"""What routes about stored things take: moments, and no more questions at once than a database answers in time."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Query, Request
from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from daemon.core.moments import LIKE, read_rfc3339, rfc3339
from daemon.web.errors import ApiError
from daemon.web.rates import Rates
from schemas.checking.problems import refuse, wrong
from schemas.readings import Array

LEAST_NS = -(2**63)

_BLANK_FOR_PLUS = re.compile(r" (\d\d:\d\d)$")
"""What a `+` of a zone becomes in an address that does not encode it."""


def _read(value: Any) -> Any:
    if not isinstance(value, str) or re.fullmatch(r"[+-]?\d+", value):
        return value
    try:
        return read_rfc3339(_BLANK_FOR_PLUS.sub(r"+\1", value))
    except ValueError as error:
        refuse([wrong(str(error), f"{LIKE}, or as nanoseconds since 1970-01-01")])


def _in_64_bits(time_ns: int) -> int:
    if not LEAST_NS <= time_ns < -LEAST_NS:
        refuse([wrong("it does not fit into 64 bits", f"{LIKE}, or as nanoseconds since 1970-01-01")])
    return time_ns


Moment = Annotated[
    int,
    BeforeValidator(_read),
    AfterValidator(_in_64_bits),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "format": "date-time"}]}),
]
"""A time in a question: nanoseconds, in 64 bits, or RFC 3339."""

Times = Annotated[
    Literal["ns", "rfc3339"],
    Query(description="`rfc3339`: each `..._ns` of the answer is a text, under its name without `_ns`."),
]


def with_times(content: Mapping[str, Any], times: Literal["ns", "rfc3339"]) -> Mapping[str, Any]:
    """An answer with its times as they are asked for."""
    if times == "ns":
        return content
    return {
        name.removesuffix("_ns") if name.endswith("_ns") else name: _texts(value) if name.endswith("_ns") else value
        for name, value in content.items()
    }


def _texts(value: Array | list[int | None] | int | None) -> Any:
    if isinstance(value, np.ndarray):
        return [f"{text}Z" for text in np.datetime_as_string(value.astype("<M8[ns]"), unit="ns")]
    if isinstance(value, list):
        return [_texts(each) for each in value]
    return None if value is None else rfc3339(value)


AT_ONCE = 4
WAITING = 32
RATE = {"burst": 60.0, "per_s": 20.0}
"""Of one address; the page asks once in 4 s for each instrument that somebody looks at."""


class QueryLimit:
    """Runs a few at once, lets a few wait, and refuses the others; a dependency of a route.

    what: is asked for.
    """

    def __init__(self, what: str = "readings") -> None:
        self._what = what
        self._running = asyncio.Semaphore(AT_ONCE)
        self._admitted = 0
        self._rates = Rates(**RATE)

    async def __call__(self, request: Request) -> AsyncIterator[None]:
        """Admit one query, for as long as it runs.

        Raises:
            ApiError: 429 for an address that asks too often, 503 when too many wait.
        """
        client = request.client.host if request.client else ""
        if self._rates.take(client, time.monotonic()):
            detail = f"too many questions for {self._what} from this address"
            raise ApiError(429, detail, "ask less often, or for longer ranges", wait_s=1)
        if self._admitted >= AT_ONCE + WAITING:
            raise ApiError(503, f"too many questions for {self._what} at once", "try again later", wait_s=2)
        self._admitted += 1
        try:
            async with self._running:
                yield
        finally:
            self._admitted -= 1

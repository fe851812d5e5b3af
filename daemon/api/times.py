"""Times in questions and answers: nanoseconds since 1970-01-01 UTC, or RFC 3339."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Query
from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from daemon.core.moments import LIKE, read_rfc3339, rfc3339
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

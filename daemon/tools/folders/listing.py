"""Intervals as the commands print them: a line each for people, or JSON."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from daemon.core.moments import LEAST_NS, rfc3339
from daemon.tools.conditions.listing import listing
from schemas.folders.blocks import OPEN
from schemas.folders.columns import values_of
from schemas.folders.folders import Column
from schemas.readings import Array


def list_intervals(block: Array, columns: tuple[Column, ...], channels: Mapping[int, str], as_json: bool) -> None:
    """Print intervals, with the names of their channels."""
    values = (values_of(block, column) for column in columns)
    rows = [
        (number, channels.get(number, ""), _time(since, as_json), _time(until, as_json), *found)
        for number, since, until, *found in zip(
            *(block[name].tolist() for name in ("channel", "since", "until")),
            *(each.tolist() if isinstance(each, np.ndarray) else each for each in values),
            strict=True,
        )
    ]
    names = [column.name for column in columns]
    listing(("channel", "name", "since", "until", *names), rows, as_json, "There is no such interval.")


def _time(time: int, as_json: bool) -> Any:
    """A time as it is told: for people as RFC 3339 where it can be nanoseconds since 1970."""
    if time == OPEN:
        return None if as_json else "open"
    return time if as_json else rfc3339(time) if time >= LEAST_NS else str(time)

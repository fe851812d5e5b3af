"""Reads many intervals out of one request, into columns; what is wrong is said of the first that is wrong."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from daemon.web.errors import ApiError
from schemas.checking.problems import JSON_VALUES, has_too_many_values, suggestion
from schemas.conditions.intervals import KEY_DTYPE, LARGEST, Intervals
from schemas.conditions.line import texts
from schemas.conditions.rules import ConditionsRefused
from schemas.readings import Array

NEEDED = ("payload_url", "major_iov", "minor_iov", "payload_list")
DEFAULTS: Mapping[str, Any] = {
    "checksum": "",
    "size": None,
    "major_iov_end": LARGEST,
    "minor_iov_end": LARGEST,
}
KNOWN = (*NEEDED, *DEFAULTS)
LONGEST = 255
"""Characters of a text, as in the reference."""

Rows = Sequence[Mapping[str, Any]]


class Bulk:
    """The intervals of a request, by name of their list, in the order of their starts.

    Within a list the order of the request counts for nothing: open intervals hold up to the next one, whichever came
    first. `places` is where in the request they were: intp, by name of the list.
    """

    def __init__(self, lists: Mapping[str, Intervals], places: Mapping[str, Array]) -> None:
        self.lists = lists
        self._places = places

    def named(self, refusal: ConditionsRefused) -> ConditionsRefused:
        """A refusal of one of them, with its place in the request in front of its field."""
        for name, places in self._places.items():
            number, found, field = refusal.field.removeprefix(f"{name}[").partition("].")
            if found and refusal.field.startswith(f"{name}[") and number.isdigit():
                place = f"[{places[int(number)]}].{field}"
                return ConditionsRefused(refusal.kind, place, refusal.problem, refusal.fix)
        return refusal


async def read_bulk(body: bytes) -> Bulk:
    """Read a request.

    Raises:
        ApiError: it is no array of intervals, or one of them is wrong.
    """
    rows = _rows(body)
    columns = {}
    for name in KNOWN:
        columns[name] = _column(rows, name)
        await asyncio.sleep(0)  # 100,000 intervals take a tenth of a second: others are answered between
    keys = {name: np.array(columns[name], np.int64) for name in columns if "_iov" in name}
    starts, ends = _keys(keys, ""), _keys(keys, "_end")
    sizes = np.array([-1 if each is None else each for each in columns["size"]], np.int64)
    urls, checksums = texts(columns["payload_url"]), texts(columns["checksum"])
    lists, places = {}, {}
    for name, chosen in _by_list(columns["payload_list"], starts):
        places[name] = chosen
        nothing = np.zeros(len(chosen), np.int64)
        lists[name] = Intervals(
            ids=nothing,
            starts=starts[chosen],
            ends=ends[chosen],
            urls=urls[chosen],
            checksums=checksums[chosen],
            sizes=sizes[chosen],
            inserted_ns=nothing,
        )
    return Bulk(lists, places)


def _rows(body: bytes) -> Rows:
    if has_too_many_values(body):
        raise ApiError(413, f"there are more than {JSON_VALUES:,} values", "send the intervals in parts", field="body")
    try:
        rows = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"not valid JSON ({str(error)[:80]})", "send an array of objects", field="body") from None
    if not isinstance(rows, list):
        raise ApiError(400, "there is no array", "send an array of objects", field="body")
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ApiError(400, "there is no object", "send an array of objects", field=f"[{i}]")
        if not row.keys() <= _KNOWN:
            other = next(iter(row.keys() - _KNOWN))
            raise ApiError(400, "unknown key", suggestion(other, KNOWN), field=f"[{i}].{other[:60]}")
    return rows


_KNOWN = frozenset(KNOWN)


def _column(rows: Rows, name: str) -> list[Any]:
    """The values of one field.

    Raises:
        ApiError: one is missing, or wrong.
    """
    if name in DEFAULTS:
        default = DEFAULTS[name]
        found = [row.get(name, default) for row in rows]
    else:
        try:
            found = [row[name] for row in rows]
        except KeyError:
            i = next(i for i, row in enumerate(rows) if name not in row)
            raise ApiError(400, "missing", "give it in each object", field=f"[{i}].{name}") from None
    is_number = "_iov" in name or name == "size"
    (_see_numbers if is_number else _see_texts)(found, name)
    return found


def _see_numbers(found: list[Any], name: str) -> None:
    kinds = set(map(type, found))
    if name == "size":
        kinds.discard(type(None))
    numbers = found if name != "size" else [each for each in found if each is not None]
    if kinds <= {int} and (not numbers or (min(numbers) >= 0 and max(numbers) <= LARGEST)):
        return
    wrong = (i for i, each in enumerate(found) if not _is_number(each) and not (name == "size" and each is None))
    i = next(wrong)
    problem = f"{str(found[i])[:40]!r} is not a whole number of 63 bits"
    raise ApiError(400, problem, f"give 0 to {LARGEST}", field=f"[{i}].{name}")


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _see_texts(found: list[Any], name: str) -> None:
    least = 1 if name in NEEDED else 0
    for i, each in enumerate(found):
        if not isinstance(each, str) or not least <= len(each) <= LONGEST:
            problem = f"{str(each)[:40]!r} is no text of {least} to {LONGEST} characters"
            raise ApiError(400, problem, "give one", field=f"[{i}].{name}")


def _keys(columns: Mapping[str, Array], suffix: str) -> Array:
    major, minor = columns[f"major_iov{suffix}"], columns[f"minor_iov{suffix}"]
    keys = np.empty(len(major), KEY_DTYPE)
    keys["major"], keys["minor"] = major, minor
    return keys


def _by_list(names: list[str], starts: Array) -> Iterator[tuple[str, Array]]:
    """The intervals of each list, in the order of their starts: intp."""
    known: dict[str, int] = {}
    numbers = np.array([known.setdefault(name, len(known)) for name in names], np.int64)
    order = np.lexsort((starts["minor"], starts["major"], numbers))
    bounds = np.searchsorted(numbers[order], np.arange(len(known) + 1))
    for i, name in enumerate(known):
        yield name, order[bounds[i] : bounds[i + 1]]

"""Routes of intervals (payload IOVs): list, show, add, attach one or many, delete."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import orjson
from fastapi import APIRouter, Depends, Path, Request, Response

from daemon.conditions.contract import each_interval, interval, interval_row
from daemon.conditions.requests.nested import STEP, Nested
from daemon.conditions.requests.routing import (
    Context,
    Filter,
    Listing,
    Order,
    Paging,
    at,
    is_wanted,
    json,
    last_without,
    new_router,
)
from daemon.web.errors import ApiError
from schemas.api.conditions import IovAttachment, NewPayloadIov
from schemas.checking.problems import JSON_VALUES, has_too_many_values, suggestion
from schemas.conditions.intervals import KEY_DTYPE, LARGEST, Interval, Intervals, Key, NewInterval, PayloadList
from schemas.conditions.line import texts
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.readings import Array

# --- many intervals out of one request -------------------------------------------------------------------------------

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
    rows = _rows_read(body)
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


def _rows_read(body: bytes) -> Rows:
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


Number = Annotated[int, Path(ge=0, le=LARGEST)]
Row = tuple[Interval, PayloadList | None]

LISTING: Listing[Row] = Listing(
    row=lambda row: interval_row(*row),
    sorts={
        "id": lambda row: row[0].id,
        "payload_url": lambda row: row[0].url,
        "checksum": lambda row: row[0].checksum,
        "major_iov": lambda row: row[0].start.major,
        "minor_iov": lambda row: row[0].start.minor,
        "major_iov_end": lambda row: row[0].end.major,
        "minor_iov_end": lambda row: row[0].end.minor,
        "payload_list": lambda row: last_without(row[0].list),
        "global_tag": lambda row: last_without(row[1].tag if row[1] else None),
        "payload_type": lambda row: last_without(row[1].type if row[1] else None),
        "inserted": lambda row: row[0].inserted_ns,
    },
    texts=lambda row: (row[0].url, row[0].list),
    default="id",
)


def interval_routes(context: Context, nested: Nested) -> APIRouter:
    """List and show intervals."""
    routes = new_router()
    store = context.store
    browsing = asyncio.Semaphore(1)  # each may go through the whole database

    @at(routes, "GET", "piov", "payload-iovs")
    async def intervals(
        paging: Annotated[Paging, Depends()],
        payload_list: Filter = None,
        global_tag: Filter = None,
        payload_type: Filter = None,
    ) -> Response:
        """All intervals, in lists or not, or a page of them."""
        filters = {"payload_list": payload_list, "global_tag": global_tag, "payload_type": payload_type}
        if paging.page is None:
            paging.only_with_page(**filters)
            return await nested.answer(nested.intervals())
        async with browsing:
            if paging.is_by_id and not any(filters.values()):
                return await _counted_off(context, paging)
            return await _page(_rows(context, filters), paging)

    @at(routes, "GET", "piov/{number}", "payload-iovs/{number}")
    async def one_interval(number: Number) -> Response:
        """An interval, by its id."""
        return json(interval(await store.interval(number)))

    return routes


@dataclass(kw_only=True)
class _Span:
    """Which interval; parts of an address."""

    tag: Annotated[str, Path()]
    of_type: Annotated[str, Path()]
    major: Number
    minor: Number
    major_end: Number
    minor_end: Number


def interval_orders(context: Context) -> APIRouter:
    """Add, attach and delete intervals."""
    routes = new_router()
    store = context.store

    @at(routes, "POST", "piov", "payload-iovs")
    async def add_interval(given: NewPayloadIov) -> Response:
        """Store an interval, in no list; without ends it is open."""
        made = NewInterval(
            url=given.payload_url,
            checksum=given.checksum,
            size=given.size,
            start=Key(given.major_iov, given.minor_iov),
            end=Key(given.major_iov_end, given.minor_iov_end),
        )
        return json(interval(await store.add_interval(made)))

    @at(routes, "PUT", "piov_attach", "payload-iovs/attach")
    async def attach_interval(given: IovAttachment) -> Response:
        """Attach an interval to a list; see docs/conditions.md for what else changes."""
        if given.global_tag is not None:
            _see_tag(await store.payload_list(given.payload_list), given.global_tag)
        return json(interval(await _attached(context, given.payload_list, given.piov_id)))

    @at(routes, "POST", "bulk_piov", "payload-iovs/bulk")
    async def attach_many(request: Request) -> Response:
        """Store and attach many intervals, all or none; the body is an array of objects."""
        bulk = await read_bulk(await request.body())
        try:
            await store.insert(bulk.lists)
        except ConditionsRefused as refusal:
            raise bulk.named(refusal) from None
        return Response()  # empty, as in the reference

    @at(
        routes,
        "DELETE",
        "deletePayloadIOV/{tag}/{of_type}/{major}/{minor}",
        "payload-iovs/{tag}/{of_type}/{major}/{minor}/delete",
    )
    async def delete_open(tag: str, of_type: str, major: Number, minor: Number) -> Response:
        """Remove an open interval."""
        return await _delete(context, tag, of_type, Key(major, minor), Key(LARGEST, LARGEST))

    @at(
        routes,
        "DELETE",
        "deletePayloadIOV/{tag}/{of_type}/{major}/{minor}/{major_end}/{minor_end}",
        "payload-iovs/{tag}/{of_type}/{major}/{minor}/{major_end}/{minor_end}/delete",
    )
    async def delete_interval(which: Annotated[_Span, Depends()]) -> Response:
        """Remove the interval with just this start and end."""
        return await _delete(
            context, which.tag, which.of_type, Key(which.major, which.minor), Key(which.major_end, which.minor_end)
        )

    return routes


async def _counted_off(context: Context, paging: Paging) -> Response:
    """A page of all intervals in the order of their ids, which the database counts off."""
    owners = {each.name: each for each in await context.store.lists()}
    count, found = await context.store.interval_page(
        paging.most - paging.page_size, paging.page_size, descending=paging.order is Order.DESCENDING
    )
    return LISTING.whole([(each, owners.get(each.list or "")) for each in found], count, paging)


async def _page(rows: AsyncIterator[Row], paging: Paging) -> Response:
    """A page of however many rows; those that are on no page up to this one are not kept."""
    LISTING.key(paging.sort)
    found: list[Row] = []
    count = 0
    async for row in rows:
        if LISTING.has(row, paging.search):
            count += 1
            found.append(row)
        if len(found) >= 2 * paging.most + STEP:
            found = LISTING.sorted(found, paging)[: paging.most]
    return LISTING.cut(LISTING.sorted(found, paging), count, paging)


async def _attached(context: Context, name: str, id_: int) -> Interval:
    """Attach an interval, unless the list has it already: a client that got no answer in time orders the same again."""
    try:
        return await context.store.attach_interval(name, id_)
    except ConditionsRefused as refusal:
        if refusal.field != "piov_id" or refusal.kind is not RefusalKind.CONFLICT:
            raise
        there = await context.store.interval(id_)
        if there.list != name:
            raise
        return there


async def _delete(context: Context, tag: str, of_type: str, start: Key, end: Key) -> Response:
    await context.store.remove_interval(tag, of_type, start, end)
    return json({"detail": f"PayloadIOV of {of_type} at {start.major} {start.minor} deleted."})


def _see_tag(found: PayloadList, tag: str) -> None:
    if found.tag != tag:
        problem = f"{found.name} belongs to {found.tag or 'none'}"
        raise ConditionsRefused(RefusalKind.CONFLICT, "global_tag", problem, "name the tag that has the list, or none")


async def _rows(context: Context, filters: dict[str, str | None]) -> AsyncIterator[Row]:
    """Intervals of the lists that are asked for, or all of them, in lists or not."""
    owners = {each.name: each for each in await context.store.lists()}
    if not any(filters.values()):
        after = 0
        while found := await context.store.intervals(after, STEP):
            for each in found:
                yield each, owners.get(each.list or "")
            after = found[-1].id
        return
    for owner in owners.values():
        has = {"payload_list": owner.name, "global_tag": owner.tag, "payload_type": owner.type}
        if all(is_wanted(has[name], wanted) for name, wanted in filters.items()):
            for each in each_interval(await context.store.timeline(owner.name), owner.name):
                yield each, owner
            await asyncio.sleep(0)

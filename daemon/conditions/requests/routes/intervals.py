"""Routes of intervals (payload IOVs): list, show, add, attach one or many, delete."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from daemon.conditions.contract import each_interval, interval, interval_row
from daemon.conditions.requests.routes.bulk import read_bulk
from daemon.conditions.requests.routes.nested import STEP, Nested
from daemon.conditions.requests.routes.paging import Filter, Listing, Order, Paging, is_wanted, last_without
from daemon.conditions.requests.routes.routing import Context, at, json, new_router
from schemas.api.conditions import IovAttachment, NewPayloadIov
from schemas.conditions.intervals import LARGEST, Interval, Key, NewInterval, PayloadList
from schemas.conditions.rules import ConditionsRefused, RefusalKind

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

"""Routes of payload types and payload lists."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from daemon.conditions.contract import flat_rows, list_head, list_row, payload_type
from daemon.conditions.requests.routes.nested import Nested
from daemon.conditions.requests.routes.paging import Filter, Listing, Paging, is_wanted, last_without
from daemon.conditions.requests.routes.routing import Context, at, json, new_router
from schemas.api.conditions import ListAttachment, NewList, NewType
from schemas.conditions.intervals import PayloadList, PayloadType
from schemas.conditions.rules import unknown

TYPES: Listing[PayloadType] = Listing(
    row=payload_type,
    sorts={"id": lambda each: each.id, "name": lambda each: each.name, "created": lambda each: each.created_ns},
    texts=lambda each: (each.name,),
)
LISTS: Listing[PayloadList] = Listing(
    row=list_row,
    sorts={
        "id": lambda each: each.id,
        "name": lambda each: each.name,
        "global_tag": lambda each: last_without(each.tag),
        "payload_type": lambda each: each.type,
        "iov_count": lambda each: each.intervals,
        "created": lambda each: each.created_ns,
    },
    texts=lambda each: (each.name, each.tag, each.type),
)


def list_routes(context: Context, nested: Nested) -> APIRouter:
    """Types and lists."""
    routes = new_router()
    store = context.store

    @at(routes, "GET", "pt", "payload-types")
    async def types(paging: Annotated[Paging, Depends()]) -> Response:
        """All payload types, or a page of them."""
        found = await store.types()
        if paging.page is None:
            paging.only_with_page()
            return json([payload_type(each) for each in found])
        return TYPES.answer(found, paging)

    @at(routes, "GET", "pl", "payload-lists")
    async def lists(
        paging: Annotated[Paging, Depends()], global_tag: Filter = None, payload_type: Filter = None
    ) -> Response:
        """All lists with their intervals, or a page of lists without them."""
        found = await store.lists()
        if paging.page is None:
            paging.only_with_page(global_tag=global_tag, payload_type=payload_type)
            return await nested.answer(nested.lists(found))
        of_tag = (each for each in found if is_wanted(each.tag, global_tag))
        return LISTS.answer((each for each in of_tag if is_wanted(each.type, payload_type)), paging)

    @at(routes, "GET", "pl/{number}", "payload-lists/{number}")
    async def list_by_id(number: int) -> Response:
        """A list without its intervals; its tag and type are numbers here."""
        for each in await store.lists():
            if each.id == number:
                types_ = {one.name: one.id for one in await store.types()}
                tag = None if each.tag is None else (await store.tag(each.tag)).id
                return json(list_head(each) | {"global_tag": tag, "payload_type": types_[each.type]})
        raise unknown("payload_list", number)

    @at(routes, "GET", "payload-lists/by-name/{name}")
    async def list_by_name(name: str) -> Response:
        """A list without its intervals, which are counted."""
        return json(list_row(await store.payload_list(name)))

    @at(routes, "GET", "payload-lists/by-name/{name}/intervals")
    async def list_intervals(name: str) -> Response:
        """All intervals of a list, as flat rows in the order of their starts; the reference has no such answer."""
        found = await store.payload_list(name)
        rows = flat_rows(found.type, await store.timeline(name), slice(None))
        return Response(b"[" + b",".join(rows) + b"]", media_type="application/json")

    return routes


def list_orders(context: Context) -> APIRouter:
    """Add and delete types and lists, give lists to tags."""
    routes = new_router()
    store = context.store

    @at(routes, "POST", "pt", "payload-types")
    async def add_type(given: NewType) -> Response:
        """Add a payload type."""
        made = await store.add_type(given.name)
        return json(payload_type(made))

    @at(routes, "DELETE", "deletePayloadType/{name}", "payload-types/{name}/delete")
    async def delete_type(name: str) -> Response:
        """Remove a payload type that no list has."""
        await store.remove_type(name)
        return json({"detail": f"Payload Type {name} deleted."})

    @at(routes, "POST", "pl", "payload-lists")
    async def add_list(given: NewList) -> Response:
        """Add an empty list of a type, in no tag."""
        made = await store.add_list(given.payload_type)
        return json(list_head(made))

    @at(routes, "PUT", "pl_attach", "payload-lists/attach")
    async def attach_list(given: ListAttachment) -> Response:
        """Give a list to a tag."""
        attached = await store.attach_list(given.global_tag, given.payload_list)
        return json(list_head(attached))

    @at(routes, "DELETE", "deletePayloadList/{name}", "payload-lists/{name}/delete")
    async def delete_list(name: str) -> Response:
        """Remove a list that has no intervals, and from the tag that has it."""
        await store.remove_list(name)
        return json({"detail": f"Payload List {name} deleted."})

    return routes

"""Routes of global tags and their statuses."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from daemon.conditions.contract import (
    changed_tag,
    created_tag,
    flat_rows,
    list_head,
    list_row,
    payload_type,
    status,
    tag_row,
)
from daemon.conditions.requests.nested import Nested
from daemon.conditions.requests.routing import (
    Context,
    Filter,
    Listing,
    Paging,
    at,
    is_wanted,
    json,
    last_without,
    new_router,
)
from daemon.web.errors import ApiError
from schemas.api.conditions import ListAttachment, Name, NewList, NewStatus, NewTag, NewType
from schemas.checking.problems import listed
from schemas.conditions.intervals import GlobalTag, PayloadList, PayloadType, TagStatus
from schemas.conditions.rules import unknown

LISTING: Listing[GlobalTag] = Listing(
    row=tag_row,
    sorts={
        "id": lambda tag: tag.id,
        "name": lambda tag: tag.name,
        "author": lambda tag: last_without(tag.author or None),
        "status": lambda tag: tag.status,
        "created": lambda tag: tag.created_ns,
        "updated": lambda tag: tag.updated_ns,
        "payload_lists_count": lambda tag: tag.lists,
        "payload_iov_count": lambda tag: tag.intervals,
    },
    texts=lambda tag: (tag.name, tag.author),
)


Light = Annotated[str | None, Query(description="If it is there, counts are given in place of lists.")]


def tag_routes(context: Context, nested: Nested) -> APIRouter:
    """Statuses and tags."""
    routes = new_router()
    store = context.store

    @at(routes, "GET", "gtstatus", "global-tags/statuses")
    async def statuses() -> Response:
        """The statuses that there are."""
        return json([status(each) for each in TagStatus])

    @at(routes, "GET", "globalTags", "global-tags")
    async def tags(
        paging: Annotated[Paging, Depends()],
        status: Annotated[str | None, Query(description="Only tags of this status; of any, where it is empty.")] = None,
    ) -> Response:
        """A page of tags; the whole list without parameters, which clients ask for, is answered in `requests.hot`."""
        found = await store.tags()
        if paging.page is None:
            paging.only_with_page(status=status)
            return json([tag_row(each) for each in found])
        wanted = _status(status) if status else None
        return LISTING.answer((each for each in found if is_wanted(each.status, wanted)), paging)

    @at(routes, "GET", "gt")
    async def nested_tags() -> Response:
        """All tags with everything in them."""
        return await nested.answer(nested.tags(await store.tags()))

    @at(routes, "GET", "gt/{number}")
    async def nested_tag(number: int) -> Response:
        """A tag with everything in it, by its id."""
        for each in await store.tags():
            if each.id == number:
                return await nested.answer(nested.tag(each))
        raise unknown("global_tag", number)

    @at(routes, "GET", "globalTag/{name}", "global-tags/{name}")
    async def tag(name: str, light: Light = None) -> Response:
        """A tag with everything in it, by its name."""
        found = await store.tag(name)
        return json(tag_row(found)) if light is not None else await nested.answer(nested.tag(found))

    @at(routes, "GET", "gtPayloadLists/{name}", "global-tags/{name}/payload-lists")
    async def tag_lists(name: str) -> Response:
        """Names of a tag's lists, by type; none for an unknown tag."""
        names = {each.name for each in await store.revisions()}
        return json(dict(await store.tag_lists(name)) if name in names else {})

    return routes


def tag_orders(context: Context) -> APIRouter:
    """Add, clone, change and delete tags."""
    routes = new_router()
    store = context.store

    @at(routes, "POST", "gtstatus", "global-tags/statuses")
    async def add_status(given: NewStatus) -> Response:
        """Add a status, which is there already if it is one of the three."""
        return json(status(_status(given.name)))

    @at(routes, "POST", "gt")
    async def add_tag(given: NewTag, request: Request) -> Response:
        """Add a tag without lists."""
        made = await store.add_tag(given.name, given.status, given.author or "")
        context.tell_tag(f"global tag {made.name} was added, {made.status}", request)
        return json(created_tag(made))

    @at(routes, "POST", "cloneGlobalTag/{source}/{name}", "global-tags/{source}/clone/{name}")
    async def clone_tag(source: str, name: Name, request: Request) -> Response:
        """Make an unlocked tag that answers as another one does."""
        made = await store.clone_tag(source, name)
        context.tell_tag(f"global tag {source} was cloned to {made.name}", request)
        return json(tag_row(made))

    @at(routes, "PUT", "gt_change_status/{name}/{new}", "global-tags/{name}/change-status/{new}")
    async def change_status(name: str, new: str, request: Request) -> Response:
        """Change the status of a tag; a frozen one stays frozen."""
        changed = await store.set_status(name, _status(new))
        context.tell_tag(f"global tag {name} is {changed.status}", request)
        return json(changed_tag(changed))

    @at(routes, "DELETE", "deleteGlobalTag/{name}", "global-tags/{name}/delete")
    async def delete_tag(name: str, request: Request) -> Response:
        """Remove a tag with its lists and their intervals."""
        await store.remove_tag(name)
        context.tell_tag(f"global tag {name} was removed", request)
        return json({"detail": f"Global tag {name} deleted."})

    return routes


def _status(name: str) -> TagStatus:
    try:
        return TagStatus(name)
    except ValueError:
        fix = f"use one of {listed(TagStatus)}: there are no others"
        raise ApiError(400, f"there is no status {name[:60]!r}", fix, field="status") from None


# --- payload types and payload lists ---------------------------------------------------------------------------------

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

"""Routes of global tags and their statuses."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from daemon.conditions.contract import changed_tag, created_tag, status, tag_row
from daemon.conditions.requests.routes.nested import Nested
from daemon.conditions.requests.routes.paging import Listing, Paging, is_wanted, last_without
from daemon.conditions.requests.routes.routing import Context, at, json, new_router
from daemon.web.errors import ApiError
from schemas.api.conditions import Name, NewStatus, NewTag
from schemas.checking.problems import listed
from schemas.conditions.intervals import GlobalTag, TagStatus
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

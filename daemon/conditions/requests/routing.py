"""Parts that the routes share: their places, their answers, their context, and pages of lists."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Generic, TypeVar

import orjson
from fastapi import APIRouter, Query, Request, Response

from backends.conditions import ConditionsStore
from daemon.conditions.contract import page
from daemon.conditions.requests.hot import PREFIX
from daemon.web.access import NEEDS_TOKEN
from daemon.web.errors import NOTHING_UNKNOWN, ApiError, client_of
from schemas.checking.problems import suggestion

Handler = Callable[..., Awaitable[Response]]


@dataclass(frozen=True, kw_only=True)
class Context:
    """The needs of the routes. tell: records what an operator should know."""

    store: ConditionsStore
    tell: Callable[[str], None]

    def tell_tag(self, what: str, request: Request) -> None:
        """An order about a whole tag was carried out: it is an event, with where it came from."""
        self.tell(f"{what} (ordered from {client_of(request.scope)})")


def new_router() -> APIRouter:
    """Routes below the prefix of the contract, whose parameters are all known."""
    return APIRouter(prefix=PREFIX.rstrip("/"), dependencies=[NOTHING_UNKNOWN])


def at(router: APIRouter, method: str, *paths: str) -> Callable[[Handler], Handler]:
    """Put a function at several paths: that of the reference, and its readable alias."""
    needs = [] if method == "GET" else [NEEDS_TOKEN]

    def put(handler: Handler) -> Handler:
        for path in paths:
            router.add_api_route(f"/{path}", handler, methods=[method], dependencies=needs)
        return handler

    return put


def json(content: Any) -> Response:
    """An answer."""
    return Response(orjson.dumps(content), media_type="application/json")


# --- pages of a list -------------------------------------------------------------------------------------------------


class Order(StrEnum):
    """Which way a list is sorted."""

    ASCENDING = "asc"
    DESCENDING = "desc"


Filter = Annotated[str | None, Query(description="Only rows with just this name; any, where it is empty.")]

PAGE_SIZE = 25


@dataclass(kw_only=True)
class Paging:
    """Which page of a list is asked for; parameters of a request."""

    page: Annotated[
        int | None, Query(ge=1, le=10**9, description="Number of the page, from 1; without it the whole list is given.")
    ] = None
    page_size: Annotated[int, Query(ge=1, le=1000, description="Rows of a page.")] = PAGE_SIZE
    search: Annotated[
        str | None, Query(description="Only rows with this text in one of their names, whatever its case.")
    ] = None
    sort: Annotated[
        str | None, Query(description="Field by which rows are sorted; otherwise the name, of intervals the id.")
    ] = None
    order: Annotated[Order, Query(description="`asc` or `desc`.")] = Order.ASCENDING

    @property
    def most(self) -> int:
        """Rows of this page and of those before it."""
        return (self.page or 1) * self.page_size

    @property
    def is_by_id(self) -> bool:
        """Whether rows are wanted by id, whatever they are."""
        return self.sort in (None, "id") and not self.search

    def only_with_page(self, **filters: str | None) -> None:
        """See that nothing is asked that would be ignored.

        Raises:
            ApiError: it would, because there is no page.
        """
        page_size = None if self.page_size == PAGE_SIZE else self.page_size
        order = None if self.order is Order.ASCENDING else self.order
        given = {"page_size": page_size, "search": self.search, "sort": self.sort, "order": order, **filters}
        for name, value in given.items():
            if value is not None:
                raise ApiError(400, "a list without `page` is given whole", "give `page=1`, too", field=name)


T = TypeVar("T")


def is_wanted(name: str | None, wanted: str | None) -> bool:
    """Tell whether a filter lets a row with this name through."""
    return not wanted or name == wanted


def last_without(name: str | None) -> tuple[bool, str]:
    """Sort by a name that may lack, as PostgreSQL does: rows without it are the last ones in ascending order."""
    return name is None, name or ""


@dataclass(frozen=True, kw_only=True)
class Listing(Generic[T]):
    """How a list is paged.

    row: what stands for one of it in a page. sorts: its value by the field it is sorted by. texts: what is searched.
    default: the field where none is given.
    """

    row: Callable[[T], Mapping[str, Any]]
    sorts: Mapping[str, Callable[[T], Any]]
    texts: Callable[[T], Iterable[str | None]]
    default: str = "name"

    def key(self, sort: str | None) -> Callable[[T], Any]:
        """What rows are sorted by.

        Raises:
            ApiError: there is no such field.
        """
        by = sort or self.default
        if by not in self.sorts:
            raise ApiError(400, f"{by[:60]!r} is no field to sort by", suggestion(by, self.sorts), field="sort")
        return self.sorts[by]

    def has(self, each: T, search: str | None) -> bool:
        """Whether a row is searched for."""
        wanted = (search or "").strip().lower()
        return not wanted or any(text and wanted in text.lower() for text in self.texts(each))

    def sorted(self, found: Iterable[T], paging: Paging) -> list[T]:
        """Rows in the order that is asked for; those that are alike in it by ascending id."""
        by_id = sorted(found, key=self.sorts["id"])
        return sorted(by_id, key=self.key(paging.sort), reverse=paging.order is Order.DESCENDING)

    def answer(self, every: Iterable[T], paging: Paging) -> Response:
        """A page of those that are searched for."""
        found = [each for each in every if self.has(each, paging.search)]
        return self.cut(self.sorted(found, paging), len(found), paging)

    def cut(self, found: Sequence[T], count: int, paging: Paging) -> Response:
        """A page of what is found, in order: `count` in all."""
        return self.whole(found[paging.most - paging.page_size : paging.most], count, paging)

    def whole(self, of_page: Sequence[T], count: int, paging: Paging) -> Response:
        """The page that has just these rows, of `count` in all."""
        return json(page(list(map(self.row, of_page)), count, paging.page or 1, paging.page_size))

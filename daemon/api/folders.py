"""Routes for the tree of folders: what there is, and orders that change it."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from backends.base import CommitsLost, OtherJournal, StoreError
from backends.folders.base import FoldersStore
from daemon.api.document import refusals
from daemon.api.query_limit import QueryLimit
from daemon.api.service import ApiService
from daemon.folders.opened import OpenedFolders
from daemon.web.access import NEEDS_TOKEN
from daemon.web.errors import ApiError
from schemas.api.folders import (
    ChannelsAdded,
    FolderDescription,
    FolderDetails,
    FolderRemoved,
    FolderSetDescription,
    FolderTagDescription,
    FolderTags,
    FolderTree,
    NewChannels,
    NewFolder,
    NewFolderSet,
)
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.folders.folders import FolderSet, FolderTag

PREFIX = "/api/v1/folders"
STATUS = {
    RefusalKind.UNKNOWN: HTTPStatus.NOT_FOUND,
    RefusalKind.EXISTS: HTTPStatus.CONFLICT,
    RefusalKind.CONFLICT: HTTPStatus.CONFLICT,
    RefusalKind.STATUS: HTTPStatus.CONFLICT,
    RefusalKind.INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
}
REFUSALS = refusals(
    {
        404: "What is named is not there: a folder, a channel or a tag.",
        409: "The daemon serves no folders, or what is ordered does not fit what is there.",
        503: "The database is away, the folders are not open yet, or too many questions wait.",
    }
)

Path = Annotated[str, Query(description="Path of a folder.", examples=["/magnets/current"])]
PathOfAny = Annotated[str, Query(description="Path of a folder or a set.", examples=["/magnets"])]
Tag = Annotated[str, Query(description="Name of a tag.", examples=["2026-11"])]


def folders_routes(service: ApiService) -> APIRouter:
    """List, describe, add, remove."""
    routes = APIRouter(prefix=PREFIX, tags=["folders"], responses=REFUSALS)
    limit = Depends(QueryLimit("folders"))

    @routes.get("", dependencies=[limit])
    async def tree() -> FolderTree:
        """All sets and folders, by path."""
        with opened(service) as (store, _):
            sets = [_set(each) for each in await store.sets()]
            return FolderTree(sets=sets, folders=[FolderDescription.of(each) for each in await store.folders()])

    @routes.get("/folder", dependencies=[limit])
    async def details(path: Path) -> FolderDetails:
        """One folder with its channels and tags."""
        with opened(service) as (store, _):
            return FolderDetails(
                folder=FolderDescription.of(await store.folder(path)),
                channels=dict(await store.channels(path)),
                tags=[_tag(each) for each in await store.tags(path)],
            )

    @routes.post("", status_code=201, dependencies=[NEEDS_TOKEN])
    async def add_folder(new: NewFolder) -> FolderDescription:
        """Add a folder, and the sets above it that are missing."""
        with opened(service) as (store, _):
            return FolderDescription.of(await store.add_folder(new.folder()))

    @routes.post("/sets", status_code=201, dependencies=[NEEDS_TOKEN])
    async def add_set(new: NewFolderSet) -> FolderSetDescription:
        """Add a set, and those above it that are missing."""
        with opened(service) as (store, _):
            return _set(await store.add_set(new.path, new.description))

    @routes.post("/channels", status_code=201, dependencies=[NEEDS_TOKEN])
    async def add_channels(new: NewChannels) -> ChannelsAdded:
        """Add channels to a folder, all or none."""
        with opened(service) as (store, _):
            await store.add_channels(new.path, new.channels)
        return ChannelsAdded(path=new.path, added=len(new.channels))

    @routes.post("/tags", status_code=201, dependencies=[NEEDS_TOKEN])
    async def add_tag(path: PathOfAny, tag: Tag) -> FolderTags:
        """Name the version that a multi-version folder has now; of a set, those of all below it."""
        with opened(service) as (store, _):
            return FolderTags(tags=[_tag(each) for each in await store.add_tag(path, tag)])

    @routes.delete("/tags", dependencies=[NEEDS_TOKEN])
    async def remove_tag(path: Path, tag: Tag) -> FolderRemoved:
        """Remove a tag of a folder; its intervals stay."""
        with opened(service) as (store, _):
            await store.remove_tag(path, tag)
        return FolderRemoved(path=path)

    @routes.delete("", dependencies=[NEEDS_TOKEN])
    async def remove(path: PathOfAny) -> FolderRemoved:
        """Remove a folder with all that is in it, or a set that has nothing in it."""
        with opened(service) as (store, _):
            await store.remove(path)
        return FolderRemoved(path=path)

    return routes


@contextmanager
def opened(service: ApiService) -> Iterator[tuple[FoldersStore, OpenedFolders]]:
    """The store; what it refuses is answered as a problem.

    Raises:
        ApiError: the daemon serves no folders, they are not open, or a question or an order is refused.
        StoreUnavailable: the database does not answer.
    """
    folders = service.folders
    if folders is None:
        fix = "set `serve = true` in [folders], and start the daemon again"
        raise ApiError(409, "the daemon serves no folders", fix, field="folders.serve")
    if folders.problem is not None:
        raise ApiError(503, f"the folders are not open: {folders.problem}", "try again in a moment", wait_s=2)
    try:
        yield folders.store(), folders
    except ConditionsRefused as refused:
        raise ApiError(STATUS[refused.kind], refused.problem, refused.fix, field=refused.field) from None
    except CommitsLost as lost:
        fix = f"insert again what this source has from {lost.position.sequence + 1} on"
        raise ApiError(409, str(lost), fix, field="follows") from None
    except OtherJournal as other:
        fix = "name the journal that counts this source's insertions, or take another source"
        raise ApiError(409, str(other), fix, field="journal") from None
    except StoreError as error:
        if error.is_away:
            raise
        raise ApiError(500, str(error), "see the log of the daemon") from None


def _set(of: FolderSet) -> FolderSetDescription:
    return FolderSetDescription.model_validate(of, from_attributes=True)


def _tag(of: FolderTag) -> FolderTagDescription:
    return FolderTagDescription.model_validate(of, from_attributes=True)

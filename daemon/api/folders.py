"""Routes for folders of channels and their intervals."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Header, Query, Response

from backends.base import CommitsLost, OtherJournal, StoreError
from backends.folders.base import FoldersStore
from daemon.api.document import Responses, refusals
from daemon.api.parameters import Moment, QueryLimit
from daemon.api.readings import MOST_DIGITS
from daemon.api.service import ApiService
from daemon.core.words import cell
from daemon.folders.opened import OpenedFolders
from daemon.web.access import NEEDS_TOKEN
from daemon.web.errors import ApiError
from schemas.api.folders import (
    NPY,
    ChannelsAdded,
    FolderDescription,
    FolderDetails,
    FolderRemoved,
    FolderSetDescription,
    FolderTagDescription,
    FolderTags,
    FolderTree,
    Inserted,
    IntervalColumns,
    NewChannels,
    NewFolder,
    NewFolderSet,
    SourcePosition,
)
from schemas.batch import JournalPosition
from schemas.conditions.intervals import LARGEST
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.folders.blocks import Insertion
from schemas.folders.bodies import as_csv, as_json, as_npy, block_of, from_npy, from_records
from schemas.folders.folders import HEAD, Folder, FolderSet, FolderTag
from schemas.readings import Array

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


INTERVALS, BLOCK = f"{PREFIX}/intervals", f"{PREFIX}/block"
BLOCK_BYTES = 32 * 2**20
COLUMNS_BYTES = 2**20
"""Of the body of an insertion; those of columns are read in the event loop, where readings are taken."""
RECORDS, CSV = "application/octet-stream", "text/csv"


class Format(StrEnum):
    """How an answer is written."""

    JSON = "json"
    CSV = "csv"
    NPY = "npy"


ANSWERS: Responses = {
    200: {
        "description": "The intervals, in the order of (channel, since). An array for numpy has the fields `channel`, "
        "`since`, `until` and the columns; texts are bytes of UTF-8 there, and an open interval has `until` 2^63 - 1.",
        "content": {CSV: {}, NPY: {}},
    }
}
BINARY = {"content": {type_: {"schema": {"type": "string", "format": "binary"}} for type_ in (RECORDS, NPY)}}

AnswerFormat = Annotated[
    Format,
    Query(alias="format", description="`json`; `csv`, with a header; `npy`: an array as `numpy.load` reads it."),
]
TagAsked = Annotated[
    str | None,
    Query(description="Name of a tag of a multi-version folder; its newest version, `HEAD`, if absent."),
]
At = Annotated[Moment | None, Query(description="The time that is asked for; now if absent.")]
Since = Annotated[Moment, Query(description="Only what holds from here on.")]
Until = Annotated[Moment, Query(description="Only what holds before this.")]
After = Annotated[Moment, Query(description="Only what begins later than this; -1 for everything.")]
Upto = Annotated[Moment | None, Query(description="Only what begins up to this; now if absent.")]
Channel = Annotated[str, Query(description="Number or name of a channel.", examples=["7", "Q1"])]
Source = Annotated[str, Query(description="Who inserts, such as the name of a logger.", examples=["logger-1"])]


@dataclass(frozen=True, kw_only=True)
class Numbered:
    """Which insertion of a source it is."""

    source: str
    position: JournalPosition
    follows: JournalPosition | None


def _numbered(
    *,
    source: Source,
    sequence: Annotated[
        int, Query(ge=1, le=LARGEST, description="Counts this source's insertions into the folder, ascending.")
    ],
    journal: Annotated[int, Query(ge=0, le=LARGEST, description="What counts them; 0 where that has no number.")] = 0,
    follows: Annotated[
        int | None,
        Query(
            ge=0,
            le=LARGEST,
            description="The number that was acknowledged last: a database that has lost it is noticed.",
        ),
    ] = None,
) -> Numbered:
    return Numbered(
        source=source,
        position=JournalPosition(sequence=sequence, journal=journal),
        follows=None if follows is None else JournalPosition(sequence=follows, journal=journal),
    )


AsNumbered = Annotated[Numbered, Depends(_numbered)]


def folder_interval_routes(service: ApiService) -> APIRouter:
    """Snapshot, history, changes, position; insertions."""
    routes = APIRouter(prefix=PREFIX, tags=["folders"], responses=REFUSALS)
    limit = Depends(QueryLimit("folders"))

    @routes.get("/snapshot", dependencies=[limit], response_model=IntervalColumns, responses=ANSWERS)
    async def snapshot(path: Path, at: At = None, tag: TagAsked = None, form: AnswerFormat = Format.JSON) -> Response:
        """What holds at a time, of each channel that has something then."""
        when = time.time_ns() if at is None else at
        return await _answer(service, path, form, lambda store: store.snapshot(path, when, _tag_asked(tag)))

    @routes.get("/history", dependencies=[limit], response_model=IntervalColumns, responses=ANSWERS)
    async def history(  # noqa: PLR0917 - each is a parameter of the question
        path: Path,
        channel: Channel,
        since: Since = 0,
        until: Until = LARGEST,
        tag: TagAsked = None,
        form: AnswerFormat = Format.JSON,
    ) -> Response:
        """The intervals of a channel that hold some of a span of time."""

        async def question(store: FoldersStore) -> Array:
            number = await _number_of(store, path, channel)
            return await store.history(path, number, since, until, _tag_asked(tag))

        return await _answer(service, path, form, question)

    @routes.get("/changes", dependencies=[limit], response_model=IntervalColumns, responses=ANSWERS)
    async def changes(
        path: Path, after: After, upto: Upto = None, tag: TagAsked = None, form: AnswerFormat = Format.JSON
    ) -> Response:
        """The intervals that begin in a span of time: what makes the snapshot at its end of the one at its start."""
        end = time.time_ns() if upto is None else upto
        return await _answer(service, path, form, lambda store: store.changes(path, after, end, _tag_asked(tag)))

    @routes.get("/position", dependencies=[limit])
    async def position(path: Path, source: Source) -> SourcePosition:
        """Which insertion of a source was the last one."""
        with opened(service) as (store, _):
            found = await store.position(path, source) or JournalPosition(sequence=0)
        return SourcePosition(path=path, source=source, sequence=found.sequence, journal=found.journal)

    there: Responses = {
        200: {"model": Inserted, "description": "It was there already; nothing changed."},
        **refusals({413: "The body is too large."}),
    }

    @routes.post("/intervals", status_code=201, dependencies=[NEEDS_TOKEN], responses=there)
    async def insert(path: Path, numbered: AsNumbered, columns: IntervalColumns, response: Response) -> Inserted:
        """Insert intervals that are written as columns, all or none.

        A repeat with the same number changes nothing.
        """

        def block(folder: Folder) -> Array:
            given = columns.values
            return block_of(folder.columns, columns.channel, columns.since, columns.until, given)

        return await _insert(service, path, numbered, block, response)

    @routes.post(
        "/block", status_code=201, dependencies=[NEEDS_TOKEN], responses=there, openapi_extra={"requestBody": BINARY}
    )
    async def insert_block(
        path: Path,
        numbered: AsNumbered,
        body: Annotated[bytes, Body(media_type=RECORDS)],
        response: Response,
        content_type: Annotated[str, Header(include_in_schema=False)] = "",
    ) -> Inserted:
        """Insert a block of records, all or none, as packed records or as an array of numpy.

        A repeat with the same number changes nothing.
        """
        is_npy = content_type.partition(";")[0].strip() == NPY

        def block(folder: Folder) -> Array:
            return from_npy(body) if is_npy else from_records(body, folder)

        return await _insert(service, path, numbered, block, response)

    return routes


async def _answer(
    service: ApiService, path: str, form: Format, question: Callable[[FoldersStore], Awaitable[Array]]
) -> Response:
    with opened(service) as (store, folders):
        folder = await store.folder(path)
        block = await question(store)
    if block.nbytes > folders.answer_bytes:
        problem = f"the answer has {len(block):,} intervals of {folder.dtype.itemsize:,} bytes"
        fix = "ask for a shorter span, or raise `answer_mib` in [folders]"
        raise ApiError(422, problem, fix, field="path")
    # Megabytes of text take tens of milliseconds, in which nothing else would be logged.
    return await asyncio.to_thread(_written, block, folder, form)


def _written(block: Array, folder: Folder, form: Format) -> Response:
    match form:
        case Format.CSV:
            return Response(as_csv(block, folder.columns, cell), media_type=CSV)
        case Format.NPY:
            return Response(as_npy(block), media_type=NPY)
    return Response(as_json(block, folder.columns), media_type="application/json")


async def _insert(
    service: ApiService, path: str, numbered: Numbered, block_of_: Callable[[Folder], Array], response: Response
) -> Inserted:
    with opened(service) as (store, _):
        block = await asyncio.to_thread(block_of_, await store.folder(path))
        insertion = Insertion(block=block, source=numbered.source, position=numbered.position, follows=numbered.follows)
        is_new = await store.insert(path, insertion)
    response.status_code = 201 if is_new else 200
    return Inserted(
        path=path,
        source=numbered.source,
        sequence=numbered.position.sequence,
        intervals=len(block),
        inserted=is_new,
    )


async def _number_of(store: FoldersStore, path: str, channel: str) -> int:
    """The number of a channel that is given by it, or named."""
    names = await store.channels(path)
    if channel.isascii() and channel.isdigit() and len(channel) < MOST_DIGITS and int(channel) in names:
        return int(channel)
    number = next((number for number, name in names.items() if name == channel), None)
    if number is None:
        raise ApiError(404, f"{path} has no channel {channel[:60]!r}", "give its number or its name", field="channel")
    return number


def _tag_asked(tag: str | None) -> str | None:
    return None if tag == HEAD else tag
